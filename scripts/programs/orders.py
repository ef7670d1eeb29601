# Orders, lines and customers, and queries in the manner of TPC-H. Prints a sum of each answer.
import hashlib
import sys

import duckdb

orders = int(sys.argv[1])
base = duckdb.connect(config={"threads": 2, "memory_limit": "512MB"})
base.execute(f"""
create table customer as select i as c_id, 'Customer#' || lpad(i::varchar, 9, '0') as c_name,
    (i * 7919) % 25 as c_nation from range({orders // 10}) t(i);
create table orders as select i as o_id, (i * 104729) % {orders // 10} as o_customer,
    date '1992-01-01' + ((i * 31) % 2400)::integer as o_date,
    md5(i::varchar) as o_comment from range({orders}) t(i);
create table line as select i as l_id, i // 4 as l_order, (i * 13) % 50 + 1 as l_quantity,
    ((i * 17) % 9000 + 1000)::decimal(12, 2) as l_price, ((i * 3) % 11)::decimal(4, 2) * 0.01 as
    l_discount, ['A', 'N', 'R'][(i % 3) + 1] as l_flag from range({orders * 4}) t(i);
""")
QUERIES = [
    "select l_flag, sum(l_quantity), sum(l_price), sum(l_price * (1 - l_discount)), count(*)"
    " from line group by l_flag order by l_flag",
    "select c_nation, sum(l_price * (1 - l_discount)) from customer join orders on o_customer ="
    " c_id join line on l_order = o_id where o_date < date '1995-03-15' group by 1 order by 1",
    "select o_id, sum(l_price) as total, any_value(o_date) from orders join line on l_order = o_id"
    " group by o_id order by total desc, o_id limit 100",
    "select c_name, count(*), min(o_comment), max(o_comment), string_agg(left(o_comment, 4), ','"
    " order by o_id) from customer join orders on o_customer = c_id group by c_name"
    " order by c_name",
    "select o_comment from orders where o_comment like '%ab%c%' order by o_comment",
    "select l_order, row_number() over (partition by l_flag order by l_price, l_id) as n,"
    " sum(l_quantity) over (partition by l_order order by l_id) from line order by l_id",
    "select substr(o_comment, 1, 3) k, count(distinct o_customer), list(o_id order by o_id)[1:5]"
    " from orders group by k order by k",
]
for turn in range(4):
    for query in QUERIES:
        answer = base.execute(query).fetchall()
        if turn == 0:
            print(len(answer), hashlib.md5(repr(answer).encode()).hexdigest())
base.execute("create index by_comment on orders (o_comment)")
base.execute("delete from orders where o_id % 3 = 0")
print(base.execute("select count(*), min(o_comment) from orders").fetchall())
