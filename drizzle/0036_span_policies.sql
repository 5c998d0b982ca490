-- A caller that policies keep from a project neither places its spans below those of the project nor moves them. A
-- span whose run is gone belongs to no project.
create policy admitted on otlp_spans as restrictive to slipway_limited
  using (
    not exists (
      select from runs r
      where r.tenant_id = otlp_spans.tenant_id and r.id = otlp_spans.run_id and r.order_time = otlp_spans.order_time
        and not exists (select from projects p where p.id = r.session_id)
    )
  );
