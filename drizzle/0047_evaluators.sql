-- Evaluators and alerts of automation rules.

create table evaluators (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  structured json not null,
  feedback_keys text[] not null,
  metadata json,
  created_by_name text default event_actor_name(),
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  -- Its name is the code of the error.
  constraint evaluator_exists unique (tenant_id, name),
  constraint evaluators_tenant_id_workspaces_id_fk foreign key (tenant_id) references workspaces (id) on delete cascade
);
create index evaluators_page on evaluators (tenant_id, created_at desc, id desc);
--> statement-breakpoint
alter table run_rules
  add column alerts json default '[]' not null,
  add column evaluators json default '[]' not null,
  add column evaluator_id uuid,
  add column spend_limit_usd double precision,
  add column spent_usd double precision default 0 not null,
  add column spent_week date,
  add column last_judged_at timestamptz default clock() not null;
alter table run_rules
  add constraint run_rules_evaluator_id_evaluators_id_fk
    foreign key (evaluator_id) references evaluators (id) not valid;
--> statement-breakpoint
alter table run_rules validate constraint run_rules_evaluator_id_evaluators_id_fk;
create index run_rules_evaluator on run_rules (evaluator_id);
alter table rule_deliveries add column kind text default 'webhook' not null;
--> statement-breakpoint
create table rule_evaluations (
  id uuid primary key not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  rule_id uuid not null,
  run_id uuid not null,
  evaluator_id uuid not null,
  is_of_evaluator boolean not null,
  state text default 'waiting' not null,
  attempts integer default 0 not null,
  next_attempt_at timestamptz default clock(),
  attempted_at timestamptz,
  verdicts json,
  call_run_id uuid,
  cost_usd double precision,
  error text,
  message text,
  created_at timestamptz default clock() not null,
  constraint rule_evaluations_once unique (rule_id, run_id, evaluator_id),
  constraint rule_evaluations_rule_id_run_rules_id_fk
    foreign key (rule_id) references run_rules (id) on delete cascade
);
create index rule_evaluations_due on rule_evaluations (rule_id, next_attempt_at) where state = 'waiting';
create index rule_evaluations_age on rule_evaluations using brin (created_at);
--> statement-breakpoint

create function check_rule_evaluator() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (select from evaluators e where e.id = new.evaluator_id and e.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a rule refers to a row of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger check_evaluator
  after insert or update of evaluator_id on run_rules
  for each row execute function check_rule_evaluator();
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function check_rule_evaluator() owner to slipway_system;
revoke create on schema public from slipway_system;
-- Only slipway_system may execute the function of the quota, which a trigger's creator must.
grant trigger on evaluators to slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function check_rule_evaluator() from public;
create trigger enforce_quota
  after insert on evaluators
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '200', 'true', 'evaluators');
reset role;
revoke trigger on evaluators from slipway_system;
--> statement-breakpoint

do $$
declare
  v_table text;
begin
  foreach v_table in array array['evaluators', 'rule_evaluations'] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
end $$;
create policy own on evaluators to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
create policy own on rule_evaluations to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_rule(rule_id)
  );
create policy admitted on evaluators as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
create policy admitted on rule_evaluations as restrictive to slipway_limited
  using (exists (select from run_rules r where r.id = rule_id))
  with check (true);
grant select, insert, delete, update (name, structured, feedback_keys, metadata, version, created_at, updated_at)
  on evaluators to slipway_app;
grant select, insert on rule_evaluations to slipway_app;
grant update (alerts, evaluators, evaluator_id, spend_limit_usd) on run_rules to slipway_app;
