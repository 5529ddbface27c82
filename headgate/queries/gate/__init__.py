"""Admission: which waiting jobs a worker may start now, in one statement.

The gate never looks at the backlog as a whole. It walks *lanes* (queue, sticky_worker, priority,
partition_key, rate_class): every policy but quarantine and the cost of a single job has one verdict
for a whole lane, so what is blocked is skipped without touching its jobs. Fairness is rotation: the
partitions of the highest priority level are read in the order of their keys, starting behind a
cursor that the process keeps in memory; nothing is written for it.

The statements, from the cheapest to the complete one:

    survey    is there any lane, or exactly one?
    direct    the only lane there is, oldest job first
    turns     no policy in the way of one queue: equal shares of its highest level, as known,
              locked while drawn
    fast      the same for several queues, or where the highest level has yet to be found
    full      everything: walk, draw, rank, filter, and lock the survivors only
    prelude   waits for the policy rows that `full` found busy
    refusal   ends what finds no room, in queues that discard or cancel what arrives
    refill    when a class will hold what a waiting job costs, after a call that came back empty
    reservation  lets a class save up for a heavy job that light ones keep overtaking
    prune     removes lanes without available jobs from the registry
    rotation  where other processes stand, for one that starts cold

`direct`, `turns` and `fast` close themselves when a policy is in their way. `full` reads in this
order:

    walk      unpaused queues, their priority levels, the open lanes of each level
    buckets   the exact token levels of the classes of these lanes, locked
    ceilings  the room that is left in each partition under a ceiling, locked
    draw      candidates of each lane, their rank, what the policies leave, and the locked ones
    displacement  who has to make room, in queues that cancel what runs
    full      spending, claiming, and the report for the driver

No statement waits for anyone: all its locks skip what is held elsewhere, and only `prelude` waits,
in a fixed order. Double claims cannot happen, as the claim re-checks `state` on the row version it
has locked.
"""
