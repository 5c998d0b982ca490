-- What the scheduled work needs to find feedback that waits for its run, and to leave nothing of a deleted workspace.
create index feedbacks_unattached on feedbacks (received_at) where not is_attached;
alter table feedback_configs
  add constraint feedback_configs_tenant_id_workspaces_id_fk
  foreign key (tenant_id) references workspaces (id) on delete cascade not valid;
--> statement-breakpoint
alter table feedback_configs validate constraint feedback_configs_tenant_id_workspaces_id_fk;
