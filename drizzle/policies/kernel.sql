-- Row-level security and grants: the journal, idempotency keys and rate limits.

-- ------------------------------------------------------------ journals
create policy own on journals to slipway_app
  using (scope_id = current_scope())
  with check (
    scope_id = current_scope()
    and organization_id = current_organization()
  );
create policy served on journals to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = scope_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from deployments d
      where d.tenant_id = scope_id
        and d.organization_id = journals.organization_id
        and d.listener_id = current_listener()
    )
  );
grant select, insert, update (seq, day, today) on journals to slipway_agent;
grant select, insert, update (seq, day, today) on journals to slipway_app;

-- ------------------------------------------------------------ events
-- An event names its real actor.
create policy own on events to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
  )
  with check (
    scope_id = current_scope()
    and organization_id = current_organization()
    and tenant_id is not distinct from current_tenant()
    and actor_id is not distinct from current_actor()
  );
create policy served on events to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = events.tenant_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    scope_id = events.tenant_id
    and (actor_id is null or actor_id in (current_actor(), current_listener()))
    and exists (
      select from deployments d
      where d.tenant_id = events.tenant_id
        and d.organization_id = events.organization_id
        and d.listener_id = current_listener()
    )
  );
create policy admitted on events as restrictive to slipway_limited
  using (
    (select setting('shows_events')) is distinct from 'true'
    or is_shown_event(type, subject_id, data)
  )
  with check (true);
grant insert on events to slipway_agent;
grant select, insert on events to slipway_app;

-- ------------------------------------------------------------ idempotency_keys
create policy own on idempotency_keys to slipway_app
  using (actor_id = current_actor());
grant select, insert on idempotency_keys to slipway_app;
