create table stone(id integer primary key, name text, weight real, place text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < @AMOUNT@)
insert into stone select i, 'stone ' || (i * 7919 % 200003), i % 977 / 3.0, 'place ' || (i % 89)
from n;
create index by_name on stone(name);
create index by_place on stone(place, weight);
select place, count(*), round(avg(weight), 3), group_concat(substr(name, 7, 2))
from stone group by place order by 2 desc, 1 limit 20;
update stone set name = name || ' of ' || place where id % 3 = 0;
delete from stone where id % 5 = 0;
select count(*), sum(length(name)) from stone;
pragma integrity_check;
