// The operator's settings of the container engine: its socket, base image, secrets folder and store images.
import * as z from 'zod'
import { describeIssue } from '../../../protocol/fault-messages.ts'
import { ImageReference } from '../../../protocol/kubernetes.schema.ts'
import { BaseImageList } from '../../images/language-images.ts'

/** An empty variable counts as unset. */
const ContainerSettings = z
  .object({
    CONTAINER_SOCKET: z.string().default('/var/run/docker.sock'),
    CONTAINER_OWNER: z.string().max(64).optional(),
    CONTAINER_BASE_IMAGE: ImageReference.optional(),
    CONTAINER_BASE_IMAGES: BaseImageList.default({}),
    CONTAINER_SECRETS_DIR: z.string().optional(),
    CONTAINER_POSTGRES_IMAGE: ImageReference.default('docker.io/library/postgres:18'),
    CONTAINER_REDIS_IMAGE: ImageReference.default('docker.io/library/redis:8'),
  })
  .transform(all => ({
    socket: all.CONTAINER_SOCKET.replace(/^unix:\/\//, ''),
    owner: all.CONTAINER_OWNER ?? null,
    base_images: { all: all.CONTAINER_BASE_IMAGE ?? null, of: all.CONTAINER_BASE_IMAGES },
    secrets: all.CONTAINER_SECRETS_DIR ?? null,
    stores: { database: all.CONTAINER_POSTGRES_IMAGE, redis: all.CONTAINER_REDIS_IMAGE },
  }))

export function readSettings(env: Record<string, string | undefined>): z.output<typeof ContainerSettings> {
  const variables = Object.fromEntries(Object.entries(env).filter(([, value]) => value))
  const { data, error } = ContainerSettings.safeParse(variables, { error: describeIssue })
  if (data) return data
  throw new Error(
    `Invalid settings of the container engine: ` +
      `${error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('; ')}.`,
  )
}
