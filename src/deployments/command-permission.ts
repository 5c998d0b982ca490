// The permission to change the commands of a deployment: of its build, its init containers and its sidecars.
import { type SQL, sql } from 'drizzle-orm'
import type { Permission } from '../kernel/permissions.ts'

const REQUIRED_PERMISSION: Permission = 'deployments:change-commands'
const CONFIG_COMMANDS = ['install_command', 'build_command'] as const
const SPEC_COMMANDS = ['init_containers', 'sidecars'] as const

type SpecWithCommands = { [name in (typeof SPEC_COMMANDS)[number]]?: unknown[] | null | undefined }
type ConfigWithCommands = { [name in (typeof CONFIG_COMMANDS)[number]]?: unknown } & {
  resource_spec?: SpecWithCommands | null | undefined
}

/** Pushes and schedules pass: they repeat what a key or a person decided. */
const hasCommandPermission = sql`case
  when setting('actor_kind') not in ('key', 'session') or ${REQUIRED_PERMISSION} = any(actor_permissions()) then true
  else refuse('permission_missing', ${REQUIRED_PERMISSION})
end`

/** Absent, null and empty are the same: no command. */
const extractCommands = (json: SQL, names: readonly string[]): SQL[] =>
  names.map(name => sql`nullif(nullif((${json})::jsonb -> ${name}::text, 'null'), '[]')`)

/** In a where clause: refuses different commands without the permission. */
const canReplaceCommands = (before: SQL[], after: SQL[]): SQL => {
  const asJson = (parts: SQL[]) => sql`jsonb_build_array(${sql.join(parts, sql`, `)})`
  return sql`case when ${asJson(before)} = ${asJson(after)} then true else ${hasCommandPermission} end`
}

const specCommands = (spec: SQL): SQL[] => extractCommands(spec, SPEC_COMMANDS)
const configCommands = (config: SQL): SQL[] => [
  ...extractCommands(config, CONFIG_COMMANDS),
  ...specCommands(sql`(${config})::jsonb -> 'resource_spec'`),
]

/** Of two stored configurations. */
export const canChangeCommands = (before: SQL, after: SQL): SQL =>
  canReplaceCommands(configCommands(before), configCommands(after))

/** Of two resource specifications; `before` may be null. */
export const canChangeSpecCommands = (before: SQL, after: SQL): SQL =>
  canReplaceCommands(specCommands(before), specCommands(after))

/** For a new configuration; undefined when it has no commands. */
export function canAddCommands(config: ConfigWithCommands): SQL | undefined {
  const spec = config.resource_spec
  const has = CONFIG_COMMANDS.some(name => config[name] != null) || SPEC_COMMANDS.some(name => spec?.[name]?.length)
  return has ? hasCommandPermission : undefined
}
