-- Release 0.15.0: `projects:update-retention` becomes two permissions, and `fleet-admin:read` is new.
-- Roles and narrowed keys keep what they could do; whoever manages a workspace's members sees the fleet section.
set local role slipway_system;
--> statement-breakpoint
update roles set permissions =
  array_remove(permissions, 'projects:update-retention') || array['projects:increase-trace-tier', 'projects:decrease-trace-tier']
  where 'projects:update-retention' = any(permissions);
--> statement-breakpoint
update api_keys set permissions =
  array_remove(permissions, 'projects:update-retention') || array['projects:increase-trace-tier', 'projects:decrease-trace-tier']
  where 'projects:update-retention' = any(permissions);
--> statement-breakpoint
update roles set permissions = permissions || array['fleet-admin:read']
  where 'workspaces:manage-members' = any(permissions) and not 'fleet-admin:read' = any(permissions);
--> statement-breakpoint
reset role;
