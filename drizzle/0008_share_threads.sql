CREATE TABLE "thread_shares" (
	"share_token" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"session_id" uuid NOT NULL,
	"thread_id" text NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "thread_shares_thread" UNIQUE("tenant_id","session_id","thread_id")
);
--> statement-breakpoint
ALTER TABLE "thread_shares" ADD CONSTRAINT "thread_shares_session_id_projects_id_fk"
  FOREIGN KEY ("session_id") REFERENCES "public"."projects"("id")
  ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "thread_shares_session" ON "thread_shares" USING btree ("session_id");--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
set local role slipway_system;
grant execute on function enforce_quota() to session_user;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.thread_shares REFERENCING NEW TABLE AS added
  FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '10000', 'true', 'thread_shares');
set local role slipway_system;
revoke execute on function enforce_quota() from session_user;
reset role;
alter table thread_shares enable row level security, force row level security;
create policy admitted on thread_shares as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = thread_shares.session_id)))))
  with check (true);
create policy everything on thread_shares to slipway_system
  using (true)
  with check (true);
create policy own on thread_shares to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())
    AND is_own_project(session_id)));
grant delete, insert, select on thread_shares to slipway_app;
grant delete, insert, select, update on thread_shares to slipway_system;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
