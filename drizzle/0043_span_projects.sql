-- Where runs are stored elsewhere, spans and open runs say themselves to which project they belong.
alter table otlp_spans add column session_id uuid;
drop policy confined on otlp_spans;
create policy confined on otlp_spans as restrictive to slipway_confined
  using (
    session_id = (select confined_project())
    or exists (
      select from runs r
      where r.tenant_id = otlp_spans.tenant_id and r.id = otlp_spans.run_id and r.order_time = otlp_spans.order_time
    )
  );
drop policy admitted on otlp_spans;
create policy admitted on otlp_spans as restrictive to slipway_limited
  using (
    case
      when session_id is not null then exists (select from projects p where p.id = otlp_spans.session_id)
      else not exists (
        select from runs r
        where r.tenant_id = otlp_spans.tenant_id and r.id = otlp_spans.run_id and r.order_time = otlp_spans.order_time
          and not exists (select from projects p where p.id = r.session_id)
      )
    end
  );
create policy confined on open_runs as restrictive to slipway_confined
  using (session_id = (select confined_project()));
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on otlp_spans to slipway_system;
set local role slipway_system;
create trigger check_projects
  after insert on otlp_spans
  referencing new table as added
  for each statement execute function check_projects();
reset role;
revoke trigger on otlp_spans from slipway_system;
