// The permission to change the commands of a deployment: of its build, its init containers and its sidecars.
import { type SQL, sql } from 'drizzle-orm'

const CONFIG_COMMANDS = ['install_command', 'build_command'] as const
const SPEC_COMMANDS = ['init_containers', 'sidecars'] as const

type SpecWithCommands = { [name in (typeof SPEC_COMMANDS)[number]]?: unknown[] | null | undefined }
type ConfigWithCommands = { [name in (typeof CONFIG_COMMANDS)[number]]?: unknown } & {
  resource_spec?: SpecWithCommands | null | undefined
}

const hasCommandPermission = sql`require_command_permission()`

/** In a where clause: refuses another configuration with different commands without the permission. */
export const canChangeCommands = (before: SQL, after: SQL): SQL =>
  sql`require_allowed_commands((${before})::jsonb, (${after})::jsonb)`

/** Of two resource specifications; `before` may be null. */
export const canChangeSpecCommands = (before: SQL, after: SQL): SQL => {
  const config = (spec: SQL) => sql`jsonb_build_object('resource_spec', ${spec})`
  return canChangeCommands(config(before), config(after))
}

/** For a new configuration; undefined when it has no commands. */
export function canAddCommands(config: ConfigWithCommands): SQL | undefined {
  const spec = config.resource_spec
  const has = CONFIG_COMMANDS.some(name => config[name] != null) || SPEC_COMMANDS.some(name => spec?.[name]?.length)
  return has ? hasCommandPermission : undefined
}
