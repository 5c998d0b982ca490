DROP INDEX "api_keys_page";--> statement-breakpoint
CREATE INDEX "api_keys_page_of_workspace" ON "api_keys" USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "api_keys_role" ON "api_keys" USING btree ("role_id");--> statement-breakpoint
CREATE INDEX "deployments_page" ON "deployments" USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "members_page" ON "members" USING btree ("organization_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "members_role" ON "members" USING btree ("role_id");--> statement-breakpoint
CREATE INDEX "oauth_tokens_provider" ON "oauth_tokens" USING btree ("provider_id");--> statement-breakpoint
CREATE INDEX "revisions_page" ON "revisions" USING btree ("deployment_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "tag_keys_page" ON "tag_keys" USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "tag_values_page" ON "tag_values" USING btree ("tenant_id","tag_key_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "workspace_members_page" ON "workspace_members" USING btree ("tenant_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "workspace_members_role" ON "workspace_members" USING btree ("role_id");--> statement-breakpoint
CREATE INDEX "workspaces_page" ON "workspaces" USING btree ("organization_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);--> statement-breakpoint
CREATE INDEX "api_keys_page" ON "api_keys" USING btree ("organization_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);