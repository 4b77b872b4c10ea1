"""One server over several hosts: the first one plans and answers, the others follow its steps.

Every process of JAX must dispatch the same programs in the same order. So what the first one asks
of a runner it tells the others, which have a runner of the same model, and of their own dies.
"""

from pantheon.engine.hosts.channel import Channel, ChannelClosed
from pantheon.engine.hosts.follower import follow
from pantheon.engine.hosts.group import HostGroup, HostLost
from pantheon.engine.hosts.joining import follow_hosts, lead_hosts
from pantheon.engine.hosts.leading_runner import LeadingRunner

__all__ = [
    "Channel",
    "ChannelClosed",
    "HostGroup",
    "HostLost",
    "LeadingRunner",
    "follow",
    "follow_hosts",
    "lead_hosts",
]
