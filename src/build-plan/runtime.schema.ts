// The schema of the runtime configuration, the JSON file of a source at `platform_config_path`.
import * as z from 'zod'
import { DEFAULT_DISK_GI } from '../protocol/defaults.ts'
import { Claim } from '../protocol/disks.ts'
import { isReservedVariable } from '../protocol/reserved-variables.ts'
import { AppProtocol } from '../protocol/resources.schema.ts'
import { ProcessName, ScheduleName } from '../protocol/schedule-members.schema.ts'
import { Cron, timingMembers } from '../protocol/schedules.schema.ts'
import { boundedText as bounded, recordOf } from '../protocol/wire.ts'

const MAX_VARIABLES = 500
const text = z.string({ error: 'must be a string' })
const commandLine = text.trim().max(4096)
const urlPath = bounded(1024, 'must be a path of at most 1024 characters').regex(/^\/[!-~]*$/, {
  error: 'must be a path that begins with /',
})

/** `start_command` and `release_command` name these two. */
const NAMED_OTHERWISE = ['web', 'release']
const ConfiguredName = bounded(30, 'must be a name of at most 30 characters').regex(/^[a-z]([a-z0-9-]*[a-z0-9])?$/, {
  error: 'must have names of lower-case letters, digits and inner hyphens that begin with a letter',
})
const MAX_PROCESSES = 10
const ConfiguredProcess = z
  .strictObject({
    command: commandLine.min(1, { error: 'must not be empty' }),
    scale: z.int().min(0).max(1000).nullish().meta({ description: 'The number of copies. Default: 1.' }),
    cpu: z.number().min(0.001).max(8).nullish().meta({ description: 'Cores. Default: those of the application.' }),
    memory_mb: z.int().min(64).nullish().meta({ description: 'Default: that of the application.' }),
    health_command: commandLine.min(1, { error: 'must not be empty' }).nullish().meta({
      description: 'It is healthy if this ends with 0, and restarted otherwise. Default: while it runs.',
    }),
  })
  .meta({
    description: '`resource_spec.process_scale` and `process_resources` of the deployment take precedence.',
  })

const MAX_SCHEDULES = 20
/** They are stored with the plan. */
const MAX_SCHEDULES_LENGTH = 16_384
const ConfiguredSchedule = z
  .strictObject({
    cron: Cron,
    command: commandLine.min(1, { error: 'must not be empty' }),
    ...(Object.fromEntries(Object.entries(timingMembers).map(([name, schema]) => [name, schema.nullish()])) as {
      [K in keyof typeof timingMembers]: z.ZodOptional<z.ZodNullable<(typeof timingMembers)[K]>>
    }),
    process: ProcessName.nullish().meta({
      description: 'The process whose environment and resources a run has. Default: those of the application.',
    }),
  })
  .meta({ description: 'A command that runs at the times of a cron expression.' })

const MAX_DISKS = 10
const DiskName = bounded(50, 'must be a name of at most 50 characters').regex(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/, {
  error: 'must have names of lower-case letters, digits and inner hyphens',
})
const ConfiguredDisk = z
  .strictObject({
    path: bounded(1024, 'must be a path of at most 1024 characters')
      .regex(/^\/[^:]+$/, { error: 'must be a path that begins with /, without a colon' })
      .meta({ description: 'Where it is, such as `/app/media`. `/app` is the folder of the source.' }),
    storage_gi: Claim.shape.storage_gi.meta({ description: `In gibibytes. Default: ${DEFAULT_DISK_GI}.` }),
    access_mode: Claim.shape.access_mode.meta({
      description: '`ReadWriteOncePod`: one copy at a time uses it, and a new revision replaces the one before.',
    }),
  })
  .meta({ description: 'A folder that stays through revisions.' })

export const RuntimeConfiguration = z
  .object({
    start_command: commandLine.nullish().meta({
      description:
        'Run by a shell in the folder of this file. Empty: nothing listens, and `processes` run alone. ' +
        'Default: found from the files of the source.',
    }),
    release_command: commandLine.nullish().meta({
      description:
        'Run once for each revision, after the build and before it gets requests, for example to migrate a database. ' +
        'If it fails, the revision fails. Empty: none. Default: `release` of a Procfile, or the migrations of Django.',
    }),
    release_timeout_seconds: z
      .int({ error: 'must be a whole number' })
      .min(1, { error: 'must be at least 1' })
      .max(840, { error: 'must be at most 840' })
      .nullish()
      .meta({ description: 'The time for the release command. Default: 600.' }),
    processes: recordOf(ConfiguredName, ConfiguredProcess, MAX_PROCESSES)
      .refine(types => !NAMED_OTHERWISE.some(name => name in types), {
        error: 'must not have `web` or `release`: set `start_command` or `release_command`',
      })
      .nullish()
      .meta({
        description:
          'Processes of the same build beside the one that listens, such as workers, by name. ' +
          'Default: the lines of a Procfile.',
      }),
    schedules: recordOf(ScheduleName, ConfiguredSchedule, MAX_SCHEDULES)
      .refine(schedules => JSON.stringify(schedules).length <= MAX_SCHEDULES_LENGTH, {
        error: `must have at most ${MAX_SCHEDULES_LENGTH} characters together`,
      })
      .nullish()
      .meta({
        description:
          'Commands that run at the times of cron expressions, by name. They come, change and go with the revision ' +
          'that serves.',
      }),
    disks: recordOf(DiskName, ConfiguredDisk, MAX_DISKS)
      .refine(disks => new Set(Object.values(disks).map(({ path }) => path)).size === Object.keys(disks).length, {
        error: 'must have another `path` for each',
      })
      .nullish()
      .meta({
        description:
          'Folders that stay through revisions, by name. A volume of the deployment with that claim wins. A disk ' +
          'that is left out later is detached, and keeps its files.',
      }),
    health_path: urlPath.nullish().meta({
      description:
        'The application is healthy if it answers this path with a status from 200 to 399. ' +
        'Default: if its port accepts connections.',
    }),
    sleep_path: urlPath.nullish().meta({
      description:
        'Asked before the application sleeps, for one that works without requests. It answers `{"may_sleep": true}`, ' +
        'with a time `wake_at` if it has to be awake then. Default: it may sleep whenever no request comes.',
    }),
    protocol: AppProtocol.nullish().meta({
      description:
        'What the application speaks at its port: `http`, or `h2c`, HTTP/2 without TLS, as servers of gRPC do. ' +
        '`protocol` of the deployment takes precedence. Default: `http`.',
    }),
    env: recordOf(
      bounded(253).regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'must have names of letters, digits and underscores' }),
      text,
      MAX_VARIABLES,
    )
      .refine(env => Object.keys(env).every(name => !isReservedVariable(name)), {
        error: 'must not contain PORT, PATH, DATABASE_URI, REDIS_URI or SLIPWAY_…, which the platform sets',
      })
      .nullish()
      .meta({
        description: 'Environment variables that are not secret. A secret with the same name takes precedence.',
      }),
    version: bounded(128, 'must be a text of at most 128 characters')
      .regex(/^[!-~]+$/, { error: 'must be printable ASCII without spaces' })
      .nullish()
      .meta({
        description:
          'The version of the application, shown as `image_version`. ' +
          'Default: that of package.json or pyproject.toml, or the git tag that is deployed.',
      }),
    install_command: commandLine.nullish().meta({
      description: 'Run before the build. The command of the deployment takes precedence. Empty: nothing is installed.',
    }),
    build_command: commandLine.nullish().meta({
      description:
        'Builds the application. The command of the deployment takes precedence. Empty: nothing is built. ' +
        'Default: found from the files of the source.',
    }),
    site: z
      .object({
        folder: bounded(1024, 'must be a path of at most 1024 characters').meta({
          description: 'The folder with the files, which may be made by the build, relative to that of this file.',
        }),
        fallback: bounded(255, 'must be the name of a file').nullish().meta({
          description: 'The file for a path without a file: `404.html` with status 404, any other with status 200.',
        }),
      })
      .nullish()
      .meta({ description: 'Files to serve without a server. Default: found from the files of the source.' }),
  })
  .meta({
    id: 'RuntimeConfiguration',
    description: 'How the application is built and started.',
    example: { start_command: 'node server.js', health_path: '/healthz', env: { LOG_LEVEL: 'info' } },
  })
export type RuntimeConfiguration = z.output<typeof RuntimeConfiguration>
