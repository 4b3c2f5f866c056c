"""PTX text to modules: functions, instructions, operands, variables, and the source lines they come from."""
