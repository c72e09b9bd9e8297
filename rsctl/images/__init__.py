"""The training container: its recipe, its content, its build."""
