"""The shape of `config.yaml`: a normal agent, a model in a tool loop."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from sleipnir.graphs.schema import PositiveInt, SkillFields, Variable

NotNegativeInt = Annotated[int, Field(ge=0)]


class NormalAgent(SkillFields):
    """A whole `config.yaml`."""

    # For display; the directory is the agent's identity.
    name: str | None = None
    description: str = ""
    # The agent's own, not that of the language.
    version: str = ""
    # None: the parent's effective model, else the global one; likewise the next two.
    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    agent_session: str | None = None
    instructions: str = ""
    dynamic_instructions: bool = False
    variables: list[Variable] = Field(default=[])
    conversation_starters: list[str] = Field(default=[])
    documents: list[str] = Field(default=[])
    global_tools: list[str] = Field(default=[])
    mcp_servers: list[str] = Field(default=[])

    auto_continue: bool = False
    max_auto_continues: NotNegativeInt = 10
    inject_todo_instructions: bool = True
    # None: our own text.
    continuation_prompt: str | None = None

    can_spawn_agents: bool = False
    max_concurrent_agents: PositiveInt = 4
    max_agent_depth: NotNegativeInt = 3
    inject_spawn_instructions: bool = True

    # None: this agent's model.
    summarization_model: str | None = None
    # Characters of a child's output above which it is summarised.
    summarization_threshold: NotNegativeInt = 4000
    # Seconds a question to a person stays open.
    escalation_timeout: Annotated[float, Field(ge=0)] = 300.0
    # Tokens; None: the global value, 0: never.
    compression_threshold: NotNegativeInt | None = None

    # Fields of a newer dialect: accepted, without effect (W011).
    reasoning_effort: Any = None
    spawnable_agents: Any = None
    max_tool_result_chars: Any = None
    compression_keep_last: Any = None
    memory: Any = None
    enabled_macros: Any = None


WITHOUT_EFFECT = (
    *SkillFields.model_fields,
    "reasoning_effort",
    "spawnable_agents",
    "max_tool_result_chars",
    "compression_keep_last",
    "memory",
    "enabled_macros",
)
