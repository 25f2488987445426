"""Redis clients for user programs: one that raises our errors, one for asyncio."""
