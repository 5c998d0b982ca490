// The schema of a plan, as revisions, uploads and reports have it.
import * as z from 'zod'
import { Claim } from './disks.ts'
import { ProcessName, plainMembers, ScheduleName } from './schedule-members.schema.ts'
import { arrayOf, boundedText, recordOf } from './wire.ts'

const path = boundedText(1024)
const command = boundedText(4096)
const sentences = arrayOf(boundedText(4096), 100)

const PlannedProcess = z.object({
  name: boundedText(64),
  command,
  scale: z.number().nullish().meta({ description: 'The number of copies. Default: 1.' }),
  cpu: z.number().nullish(),
  memory_mb: z.number().nullish(),
  health_command: command.nullish(),
})

/** The control plane reads `cron` and `time_zone` when they are due: an agent may know more of them. */
const PlannedSchedule = z.object({
  name: ScheduleName,
  cron: boundedText(200),
  time_zone: boundedText(64),
  command,
  ...plainMembers,
  process: ProcessName.nullish(),
})

const PlannedDisk = z.object({
  name: boundedText(50),
  path: boundedText(1024),
  storage_gi: Claim.shape.storage_gi.unwrap().unwrap(),
  access_mode: Claim.shape.access_mode.unwrap().unwrap().optional(),
})

export const BuildPlan = z
  .object({
    provider: boundedText(64).meta({ description: 'What the files are: a language, `dockerfile` or `command`.' }),
    kind: z.enum(['web', 'static', 'worker', 'graphs']).meta({
      description:
        '`web` listens on PORT; `static` is files alone; `worker` has processes that listen on nothing; `graphs` ' +
        'listens on PORT as the server of graphs, and gets a database.',
    }),
    root: path.meta({ description: 'The folder of the application in the source, where it is built and started.' }),
    graph_file: path.nullish().meta({ description: 'The file in the source that describes its graphs.' }),
    install_root: path.meta({ description: 'The folder where the install command runs.' }),
    tools: arrayOf(
      z.object({
        name: boundedText(64),
        version: boundedText(256).nullable().meta({ description: 'As the source writes it. Null: any.' }),
        from: path.nullable().meta({ description: 'The file that says so.' }),
      }),
      50,
    ),
    install: command.nullable(),
    build: command.nullable(),
    start: command.nullable().meta({
      description: 'Null for a static site, for workers alone, and if a Dockerfile says it.',
    }),
    health_path: path.nullish().meta({ description: 'The path that tells whether it is healthy.' }),
    sleep_path: path.nullish().meta({ description: 'The path that tells whether it may sleep, and until when.' }),
    release: command.nullish().meta({ description: 'Runs once per revision, before it gets requests.' }),
    processes: arrayOf(PlannedProcess, 20)
      .nullish()
      .meta({ description: 'The processes beside `start`, of the same build.' }),
    schedules: arrayOf(PlannedSchedule, 20).nullish().meta({
      description: 'The schedules of the deployment while this revision serves, beside those made by the API.',
    }),
    disks: arrayOf(PlannedDisk, 10).nullish().meta({
      description: 'The disks of the deployment while this revision serves, beside its own volumes.',
    }),
    site: z
      .object({ folder: path, fallback: boundedText(255).nullable() })
      .nullable()
      .meta({ description: 'The files that are served without a server.' }),
    env: recordOf(boundedText(253), boundedText(4096), 100).meta({ description: 'Variables that the build needs.' }),
    programs: arrayOf(path, 100),
    certain: sentences.meta({ description: 'What a file proves.' }),
    guessed: sentences.meta({ description: 'What is only likely.' }),
    warnings: sentences,
  })
  .meta({ id: 'BuildPlan', description: 'How a source is built and started.' })
export type BuildPlan = z.output<typeof BuildPlan>
