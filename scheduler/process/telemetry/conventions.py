"""The names of OpenTelemetry's conventions for generative AI, which are not stable yet.

They follow `open-telemetry/semantic-conventions-genai`, all of which has the status Development,
as of COMMIT, which builds on VERSION of the general conventions. A change of a name is in the
changelog.
"""

from __future__ import annotations

COMMIT = "004902b8cb70aa5ae6ca4ae07132b7daabcd3e10"
VERSION = "1.42.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{VERSION}"

OPERATION = "gen_ai.operation.name"
INVOKE_WORKFLOW = "invoke_workflow"
INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
RETRIEVAL = "retrieval"
EMBEDDINGS = "embeddings"

WORKFLOW_NAME = "gen_ai.workflow.name"
AGENT_NAME = "gen_ai.agent.name"
AGENT_VERSION = "gen_ai.agent.version"
CONVERSATION_ID = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
OUTPUT_TYPE = "gen_ai.output.type"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_TYPE = "gen_ai.tool.type"
DATA_SOURCE = "gen_ai.data_source.id"

# Content, which is only exported on request.
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
INSTRUCTIONS = "gen_ai.system_instructions"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"

CONTENT = (INPUT_MESSAGES, OUTPUT_MESSAGES, INSTRUCTIONS, TOOL_ARGUMENTS, TOOL_RESULT)

# Names of providers where ours differ.
PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}

# Of the general conventions, which are stable.
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"
SESSION_ID = "session.id"
USER_ID = "user.id"

# Metrics, all of them histograms, with the bounds of their buckets.
TOKEN_TYPE = "gen_ai.token.type"
TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"
WORKFLOW_DURATION = "gen_ai.workflow.duration"
AGENT_DURATION = "gen_ai.invoke_agent.duration"
TOOL_DURATION = "gen_ai.execute_tool.duration"
TOKEN_BUCKETS = tuple(float(4**power) for power in range(14))
CALL_BUCKETS_S = tuple(0.01 * 2**power for power in range(14))
RUN_BUCKETS_S = tuple(0.1 * 2**power for power in range(13))

# Of ours, exported with them.
COUNTERS = (
    "sleipnir_process_visits_total",
    "sleipnir_process_redis_errors_total",
    "sleipnir_process_telemetry_dropped_total",
)
