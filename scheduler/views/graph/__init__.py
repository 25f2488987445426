"""What drawings of a run show: its progress, one of its nodes, and its steps one by one."""
