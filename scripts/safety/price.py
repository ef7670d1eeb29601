"""What each mode costs: medians of interleaved runs, beside Quarry without any mode.

    python3 scripts/safety/price.py RUNS CHURN < COLUMNS

Each line of standard input is a column: its name, its shared object and its variable, with tabs
between them. CHURN is the program of scripts/safety/churn.c. CPU time and peak memory are those
that the kernel says of the child (wait4).
"""
import os
import statistics
import subprocess
import sys

SQL = """
create table t(id integer primary key, name text, number real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 150000)
insert into t select i, 'name ' || (i * 7919 % 150001), i / 3.0 from n;
create index by_name on t(name);
select count(*), sum(number) from t where name like 'name 1%';
update t set name = name || ' again' where id % 3 = 0;
select name, count(*) from t group by substr(name, 6, 2) order by 2 desc limit 3;
"""


def run(argv, text, environment):
    """Returns CPU seconds and MiB at most."""
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             env=environment)
    child.stdin.write(text.encode())
    child.stdin.close()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"price: {argv[0]} ended with status {status} under {environment}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    runs, churn = int(sys.argv[1]), sys.argv[2]
    columns = [line.rstrip("\n").split("\t") for line in sys.stdin]
    programs = [("malloc and free", [churn], ""), ("sqlite3", ["sqlite3", ":memory:"], SQL)]
    samples = {}
    for _ in range(runs):
        for program, argv, text in programs:
            for name, library, variable in columns:
                environment = {key: value for key, value in os.environ.items()
                               if not key.startswith("QUARRY_")}
                if library:
                    environment["LD_PRELOAD"] = library
                if variable:
                    key, value = variable.split("=", 1)
                    environment[key] = value
                samples.setdefault((program, name), []).append(run(argv, text, environment))
    print("| CPU time and peak memory of |", " | ".join(name for name, *_ in columns), "|")
    print("|---|" + "---|" * len(columns))
    base = columns[0][0]
    for program, *_ in programs:
        for metric, unit in enumerate(("s", "MiB")):
            median = {name: statistics.median(each[metric] for each in samples[program, name])
                      for name, *_ in columns}
            cells = [f"{median[name]:.3g} {unit}" if name == base
                     else f"x {median[name] / median[base]:.2f}" for name, *_ in columns]
            print(f"| {program}: {('time', 'memory')[metric]} |", " | ".join(cells), "|")


main()
