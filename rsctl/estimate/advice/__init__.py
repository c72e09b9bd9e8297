"""What an exchange of gradients costs in time and money, by topology, before it is paid. Pure."""
