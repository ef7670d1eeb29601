create table t(id integer primary key, name text, body text);
with recursive n(i) as (select 1 union all select i+1 from n where i < 60000)
insert into t select i, 'name' || (i * 7919 % 60000), printf('%0*d', 20 + i % 200, i) from n;
create index by_name on t(name);
delete from t where id % 3 = 0;
insert into t select id + 100000, name || 'x', substr(body, 1, 30) from t where id % 2 = 0;
select count(*), sum(length(body)) from t a where exists (select 1 from t b where b.name = a.name || 'x');
