-- ------------------------------------------------------------ The hash chain of each journal
alter table events add column hash text;
--> statement-breakpoint
alter table journals
  add column signed_seq bigint default 0 not null,
  add column signed_at timestamptz;
--> statement-breakpoint
-- The hash of a journal's newest event at a time, signed with a key that the database does not have.
create table journal_heads (
  scope_id uuid not null,
  seq bigint not null,
  hash text not null,
  signed_at timestamptz not null,
  signature text not null,
  constraint journal_heads_scope_id_seq_pk primary key (scope_id, seq)
);
--> statement-breakpoint
-- The newest event of each journal that was deleted because of its age, signed in the same way. The chain goes on here.
create table journal_checkpoints (
  scope_id uuid primary key not null,
  seq bigint not null,
  hash text,
  expired_before timestamptz not null,
  signature text not null
);
--> statement-breakpoint
-- A trigger, so that no writer can leave the hash out. The row of the journal is locked by every writer, so events of a
-- journal are inserted one after the other, and this reads the one before: the newest that is committed, or one of the
-- same statement. The array's text is unambiguous, and src/audit/hash-chain.ts computes the same.
create function chain_event() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_previous text;
begin
  select e.hash
  into v_previous
  from events e
  where e.scope_id = new.scope_id and e.seq = new.seq - 1;
  if not found then
    select c.hash
    into v_previous
    from journal_checkpoints c
    where c.scope_id = new.scope_id and c.seq = new.seq - 1;
  end if;
  new.hash := encode(
    sha256(convert_to(
      coalesce(v_previous, '') || new.seq || array[
        new.scope_id::text,
        new.organization_id::text,
        new.tenant_id::text,
        new.type,
        new.subject_id::text,
        new.actor_kind,
        new.actor_id::text,
        new.actor_name,
        new.request_id,
        new.request::text,
        new.data::text,
        new.changes::text,
        new.part_of::text,
        extract(epoch from new.created_at)::text
      ]::text,
      'UTF8'
    )),
    'base64'
  );
  return new;
end $$;
--> statement-breakpoint
create trigger chain_event
  before insert on events
  for each row execute function chain_event();
--> statement-breakpoint

-- ------------------------------------------------------------ Refused requests and audited reads
create table audit_attempts (
  id bigint primary key generated always as identity,
  organization_id uuid not null,
  tenant_id uuid,
  operation text not null,
  status integer not null,
  code text,
  actor_id uuid not null,
  actor_name text not null,
  request_id text not null,
  request json not null,
  left_out integer default 0 not null,
  created_at timestamptz default clock() not null
);
create index audit_attempts_page on audit_attempts (organization_id, created_at desc, id desc);
create index audit_attempts_actor on audit_attempts (actor_id, created_at desc, id desc);
create index audit_attempts_age on audit_attempts using brin (created_at);
--> statement-breakpoint
create table attempt_windows (
  key_id uuid primary key not null,
  started_at timestamptz not null,
  attempts integer not null
);
--> statement-breakpoint
-- Keeps at most `p_limit` attempts a minute of each key, and counts the others in the last one that is kept. A key that
-- never existed belongs to nobody: nothing is written. `p_more` is how many further attempts each one stands for.
create function record_attempts(
  p_key_hashes text[],
  p_workspaces text[],
  p_operations text[],
  p_statuses integer[],
  p_codes text[],
  p_request_ids text[],
  p_requests text[],
  p_more integer[],
  p_clock_offset text,
  p_limit integer
) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  with given as (
    select
      a.id as key_id,
      a.organization_id,
      coalesce(
        a.tenant_id,
        (select w.id from workspaces w where w.id = g.workspace::uuid and w.organization_id = a.organization_id)
      ) as tenant_id,
      a.description,
      g.*,
      row_number() over (partition by a.id order by g.place) as nth,
      count(*) over (partition by a.id) as of_key
    from unnest(p_key_hashes, p_workspaces, p_operations, p_statuses, p_codes, p_request_ids, p_requests, p_more)
      with ordinality as g(key_hash, workspace, operation, status, code, request_id, request, more, place)
    join api_keys a on a.key_hash = g.key_hash
  ),
  counted as (
    insert into attempt_windows as w (key_id, started_at, attempts)
    select key_id, clock(), count(*)
    from given
    group by key_id
    order by key_id
    on conflict (key_id) do update set
      attempts = excluded.attempts
        + case when w.started_at > clock() - interval '60 seconds' then w.attempts else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.attempts
  ),
  judged as (
    select g.*, c.attempts - g.of_key + g.nth <= p_limit as is_kept
    from given g
    join counted c using (key_id)
  ),
  left_out as (
    select key_id, sum(case when is_kept then more else more + 1 end) as attempts
    from judged
    group by key_id
  ),
  added_to_earlier as (
    update audit_attempts t
    set left_out = t.left_out + l.attempts
    from left_out l
    where not exists (select from judged j where j.key_id = l.key_id and j.is_kept)
      and t.id = (
        select b.id
        from audit_attempts b
        where b.actor_id = l.key_id
        order by b.created_at desc, b.id desc
        limit 1
      )
  )
  insert into audit_attempts (
    organization_id, tenant_id, operation, status, code, actor_id, actor_name, request_id, request, left_out
  )
  select
    j.organization_id,
    j.tenant_id,
    j.operation,
    j.status,
    j.code,
    j.key_id,
    j.description,
    j.request_id,
    j.request::json,
    case when j.nth = max(j.nth) over (partition by j.key_id) then l.attempts else 0 end
  from judged j
  join left_out l using (key_id)
  where j.is_kept
  order by j.place;
end $$;
--> statement-breakpoint

-- ------------------------------------------------------------ Reading
-- Newest first, one row for each write.
create index events_audit on events (organization_id, created_at desc, scope_id desc, seq desc) where part_of is null;
create index events_parts on events (scope_id, part_of) where part_of is not null;
create index events_subject on events (subject_id);
--> statement-breakpoint

-- ------------------------------------------------------------ Row-level security, grants and functions
do $$
declare
  v_table text;
begin
  foreach v_table in array array['journal_heads', 'journal_checkpoints', 'audit_attempts', 'attempt_windows'] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
end $$;
--> statement-breakpoint
create policy own on audit_attempts for select to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
  );
grant select on audit_attempts to slipway_app;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function chain_event() owner to slipway_system;
alter function record_attempts(text[], text[], text[], integer[], text[], text[], text[], integer[], text, integer)
  owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
revoke execute on function chain_event() from public;
revoke execute on function
  record_attempts(text[], text[], text[], integer[], text[], text[], text[], integer[], text, integer) from public;
--> statement-breakpoint
-- An entry function, like enter(): for the logins that requests use, and for the database's owner.
do $$
begin
  execute format(
    'grant execute on function %s to slipway_login, %I',
    'record_attempts(text[], text[], text[], integer[], text[], text[], text[], integer[], text, integer)',
    session_user
  );
end $$;
--> statement-breakpoint
reset role;
