# Helpers of tool files; nothing here is a tool.

as_bullets() {
    sed 's/^/- /'
}
