-- An agent asks a git host through the integrations of what its listener serves.
create policy served on integrations for select to slipway_agent using (exists (
  select from deployments d where d.listener_id = current_listener() and d.tenant_id = integrations.tenant_id
    and d.source_config ->> 'integration_id' = integrations.id::text));
--> statement-breakpoint
grant select on integrations to slipway_agent;
