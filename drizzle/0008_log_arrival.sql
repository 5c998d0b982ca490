-- The order in which the lines of a deployment arrive. They are numbered under the row lock of a counter, which is held
-- until commit. So they become visible in this order, and a reader that has seen one has seen all before it.
create table log_counters (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid primary key not null,
  revision_id uuid not null,
  arrival bigint not null
) with (fillfactor = 50);
--> statement-breakpoint
-- A reference to the deployment would lock its row behind that of the revision, against the order of every other write.
alter table log_counters add constraint log_counters_revision_id_revisions_id_fk
  foreign key (revision_id) references revisions(id) on delete cascade;
--> statement-breakpoint
alter table log_lines add column arrival bigint;
create index log_lines_arrival on log_lines (deployment_id, kind, arrival);
--> statement-breakpoint

-- The previous release stores lines without a number of arrival.
create function number_log_line() returns trigger
language plpgsql as $$
begin
  insert into log_counters as c (organization_id, tenant_id, deployment_id, revision_id, arrival)
  values (new.organization_id, new.tenant_id, new.deployment_id, new.revision_id, 1)
  on conflict (deployment_id) do update set arrival = c.arrival + 1
  returning c.arrival into new.arrival;
  return new;
end $$;
--> statement-breakpoint
create trigger number_log_line before insert on log_lines
  for each row when (new.arrival is null and new.number > 0) execute function number_log_line();
--> statement-breakpoint

alter table log_counters enable row level security, force row level security;
create policy everything on log_counters to slipway_system using (true) with check (true);
grant select, insert, update, delete on log_counters to slipway_system;
create policy own on log_counters to slipway_app
  using (tenant_id = current_tenant());
grant select on log_counters to slipway_app;
-- An agent counts the lines of a deployment that its listener serves.
create policy served on log_counters to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = log_counters.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = log_counters.tenant_id
        and d.organization_id = log_counters.organization_id
    )
  );
grant select, insert, update (arrival) on log_counters to slipway_agent;
grant update (arrival) on log_lines to slipway_app, slipway_agent;
