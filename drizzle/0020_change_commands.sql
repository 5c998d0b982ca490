-- Changing what a deployment runs at its build and beside it takes a permission of its own:
-- `deployments:change-commands`. Whoever could do it before still can: roles and narrowed keys with
-- `deployments:create` or `deployments:update` get it.
set local role slipway_system;
--> statement-breakpoint
update roles set permissions = permissions || array['deployments:change-commands']
  where permissions && array['deployments:create', 'deployments:update'] and not 'deployments:change-commands' = any(permissions);
--> statement-breakpoint
update api_keys set permissions = permissions || array['deployments:change-commands']
  where permissions && array['deployments:create', 'deployments:update'] and not 'deployments:change-commands' = any(permissions);
--> statement-breakpoint
reset role;
