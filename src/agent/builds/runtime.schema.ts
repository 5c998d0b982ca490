// The runtime configuration: the JSON file that a source carries at `platform_config_path`, and what each member means.
import * as z from 'zod'
import { boundedText as bounded, recordOf } from '../../protocol/wire.ts'

const MAX_VARIABLES = 500
const text = z.string({ error: 'needs to be a text' })
const commandLine = text.trim().min(1, { error: 'needs to say something' }).max(4096).nullish()

export const RuntimeConfiguration = z
  .object({
    start_command: commandLine.meta({
      description:
        'Started by a shell, in the folder of the source. `npm start` when left out and there is a package.json.',
    }),
    health_path: bounded(1024, 'needs to be a path of at most 1024 characters')
      .regex(/^\/[!-~]*$/, { error: 'needs to be a path that begins with /' })
      .nullish()
      .meta({
        description:
          'Answered with a status from 200 to 399 when the application is well. Left out: its port takes connections.',
      }),
    env: recordOf(
      bounded(253).regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'needs a name of letters, digits or underscores' }),
      text,
      MAX_VARIABLES,
    )
      .refine(env => Object.keys(env).every(name => !/^(PORT|PATH|DATABASE_URI|REDIS_URI)$|^SLIPWAY_/.test(name)), {
        error:
          'names a variable that is the platform’s: PORT, PATH, DATABASE_URI, REDIS_URI and SLIPWAY_… are given by it',
      })
      .nullish()
      .meta({ description: 'Environment variables that are no secret. A secret of the same name wins.' }),
    install_command: commandLine.meta({ description: 'Run before the build. The deployment’s own wins.' }),
    build_command: commandLine.meta({ description: 'Run before the start. The deployment’s own wins.' }),
  })
  .meta({
    id: 'RuntimeConfiguration',
    description: 'How the application is built and started. Other members are ignored.',
    example: { start_command: 'node server.js', health_path: '/healthz', env: { LOG_LEVEL: 'info' } },
  })
export type RuntimeConfiguration = z.output<typeof RuntimeConfiguration>
