// The schema of the runtime configuration, the JSON file of a source at `platform_config_path`.
import * as z from 'zod'
import { isReservedVariable } from '../protocol/reserved-variables.ts'
import { boundedText as bounded, recordOf } from '../protocol/wire.ts'

const MAX_VARIABLES = 500
const text = z.string({ error: 'must be a string' })
const commandLine = text.trim().max(4096)

export const RuntimeConfiguration = z
  .object({
    start_command: commandLine.min(1, { error: 'must not be empty' }).nullish().meta({
      description: 'Run by a shell in the folder of this file. Default: found from the files of the source.',
    }),
    health_path: bounded(1024, 'must be a path of at most 1024 characters')
      .regex(/^\/[!-~]*$/, { error: 'must be a path that begins with /' })
      .nullish()
      .meta({
        description:
          'The application is healthy if it answers this path with a status from 200 to 399. ' +
          'Default: if its port accepts connections.',
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
