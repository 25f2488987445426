{{- define "sleipnir.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Labels that never change: of a pod of one part. Takes the root and the part. */}}
{{- define "sleipnir.selector" -}}
app.kubernetes.io/name: sleipnir
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "sleipnir.labels" -}}
{{ include "sleipnir.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "sleipnir.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "sleipnir.pod" -}}
serviceAccountName: {{ include "sleipnir.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
terminationGracePeriodSeconds: {{ add .Values.drainSeconds 20 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "sleipnir.container" -}}
image: {{ include "sleipnir.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "sleipnir.probes" -}}
ports:
  - {name: health, containerPort: 8081}
livenessProbe:
  httpGet: {path: /livez, port: health}
  initialDelaySeconds: 20
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "sleipnir.redisSecret" -}}
{{ required "redis.existingSecret: name a Secret with the URL of your Redis" .Values.redis.existingSecret }}
{{- end }}

{{- define "sleipnir.env" -}}
{{- if .Values.redis.urlFile }}
- {name: SLEIPNIR_REDIS_URL_FILE, value: /etc/sleipnir-redis/{{ .Values.redis.key }}}
{{- else }}
- name: SLEIPNIR_REDIS_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "sleipnir.redisSecret" . }}
      key: {{ .Values.redis.key }}
{{- end }}
- {name: SLEIPNIR_HEALTH_ADDRESS, value: "0.0.0.0:8081"}
# A pod's name does not outlive it: runs that wait for it would wait for ever.
- {name: SLEIPNIR_PIN, value: never}
- {name: SLEIPNIR_DRAIN_S, value: {{ .Values.drainSeconds | quote }}}
{{- with .Values.archive }}
{{- if .url }}
# Of all processes, as the one that ends a run notes when it is due.
- {name: SLEIPNIR_ARCHIVE, value: {{ .url | quote }}}
- {name: SLEIPNIR_ARCHIVE_AFTER_S, value: {{ .afterSeconds | toString | quote }}}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: SLEIPNIR_{{ upper $name }}
  value: {{ if or (kindIs "map" $value) (kindIs "slice" $value) }}{{ toJson $value | quote }}{{ else if kindIs "float64" $value }}{{ toJson $value | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Keys and the archive: for the processes that execute no agents. */}}
{{- define "sleipnir.trustedEnv" -}}
{{- with .Values.hooks.keySecret }}
{{- if .name }}
- {name: SLEIPNIR_HOOK_KEY_FILE, value: /etc/sleipnir-hooks/{{ .key }}}
{{- end }}
{{- end }}
{{- with .Values.archive.keySecret }}
{{- if .name }}
- {name: SLEIPNIR_ARCHIVE_KEY_FILE, value: /etc/sleipnir-archive/{{ .key }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "sleipnir.trustedVolumes" -}}
{{- with .Values.hooks.keySecret.name }}
- name: hook-key
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.archive.keySecret.name }}
- name: archive-key
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.archive.volume }}
- name: archive
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- if hasPrefix "/" .Values.archive.url }}
{{- fail "archive.volume: a directory needs a volume that schedulers and the monitor share" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sleipnir.trustedMounts" -}}
{{- if .Values.hooks.keySecret.name }}
- {name: hook-key, mountPath: /etc/sleipnir-hooks, readOnly: true}
{{- end }}
{{- if .Values.archive.keySecret.name }}
- {name: archive-key, mountPath: /etc/sleipnir-archive, readOnly: true}
{{- end }}
{{- if .Values.archive.volume }}
- {name: archive, mountPath: {{ .Values.archive.url }}}
{{- end }}
{{- end }}

{{/* The first two are emptied with the pod: everything that lasts is in Redis. */}}
{{- define "sleipnir.volumes" -}}
- {name: data, emptyDir: {}}
- {name: tmp, emptyDir: {}}
{{- if .Values.redis.urlFile }}
- name: redis-url
  secret: {secretName: {{ include "sleipnir.redisSecret" . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "sleipnir.mounts" -}}
- {name: data, mountPath: /var/lib/sleipnir}
- {name: tmp, mountPath: /tmp}
{{- if .Values.redis.urlFile }}
- {name: redis-url, mountPath: /etc/sleipnir-redis, readOnly: true}
{{- end }}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
