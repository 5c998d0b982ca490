-- Whether a run is in a dataset, for pages of runs.
create index examples_source_run on examples (tenant_id, source_run_id)
  where source_run_id is not null and until is null;
