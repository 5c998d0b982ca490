// The operator's settings of the Kubernetes engine: namespaces, routes, stores, image builds and timeouts.
import * as z from 'zod'
import { describeIssue } from '../../../protocol/fault-messages.ts'
import {
  DnsLabel,
  DnsSubdomain,
  HOST_PATTERN,
  ImageReference,
  textMatching,
} from '../../../protocol/kubernetes.schema.ts'
import { BaseImageList } from '../../images/language-images.ts'

const commaSeparated = (each: z.ZodType<string, string>) =>
  z
    .string({ error: 'is required: one or more values, separated by commas' })
    .transform(text =>
      text
        .split(',')
        .map(item => item.trim())
        .filter(Boolean),
    )
    .pipe(z.array(each))
const PATH_PART = '[a-z0-9]+([._-]+[a-z0-9]+)*'
const RegistryHost = textMatching(260, HOST_PATTERN, 'must be the host of a registry, with an optional port')
const seconds = z.coerce.number().int().min(0).max(3600)

/** The variables of an agent whose engine is `kubernetes`. */
export const KubernetesSettings = z
  .object({
    K8S_NAMESPACES: commaSeparated(DnsLabel).pipe(z.array(z.string()).min(1)),
    K8S_OWNER: DnsLabel.default('default'),
    K8S_ROUTES: z.enum(['none', 'ingress', 'gateway']).default('none'),
    K8S_DOMAIN: DnsSubdomain.optional(),
    K8S_INGRESS_CLASS: DnsSubdomain.optional(),
    K8S_GATEWAY: z
      .string()
      .regex(/^[a-z0-9-]+\/[a-z0-9.-]+(\/[a-z0-9.-]+)?$/, {
        error: 'must be namespace/name or namespace/name/listener',
      })
      .optional(),
    K8S_TLS: z.union([z.enum(['off', 'on']), z.string().regex(/^secret:[a-z0-9.-]+$/)]).default('off'),
    K8S_STORAGE_CLASS: DnsSubdomain.optional(),
    K8S_DATABASE_BACKUPS: z.enum(['on', 'off']).default('on'),
    K8S_SNAPSHOT_CLASS: DnsSubdomain.optional(),
    K8S_POSTGRES_IMAGE: ImageReference.default('docker.io/library/postgres:18'),
    K8S_REDIS_IMAGE: ImageReference.default('docker.io/library/redis:8'),
    K8S_HTTP_REGISTRIES: commaSeparated(RegistryHost).default([]),
    K8S_BUILD_SOCKET: z.string().optional(),
    K8S_BUILD_BASE_IMAGE: ImageReference.optional(),
    K8S_BUILD_BASE_IMAGES: BaseImageList.default({}),
    K8S_BUILD_REGISTRY: textMatching(
      512,
      `${HOST_PATTERN}(/${PATH_PART})*`,
      'must be a registry, with an optional path',
    ).optional(),
    K8S_BUILD_DOCKER_CONFIG: z.string().optional(),
    K8S_PULL_SECRETS: commaSeparated(DnsSubdomain).default([]),
    K8S_RUN_AS_USER: z.coerce.number().int().min(1).optional(),
    K8S_PRIVILEGES: z.enum(['off', 'on']).default('off'),
    K8S_SERVICE_ACCOUNTS: commaSeparated(DnsSubdomain).default([]),
    K8S_PRIVILEGED_NAMESPACES: z.enum(['refuse', 'accept']).default('refuse'),
    K8S_PROGRESS_SECONDS: seconds.min(1).default(600),
    K8S_DRAIN_SECONDS: seconds.default(15),
  })
  .refine(all => all.K8S_ROUTES !== 'gateway' || all.K8S_GATEWAY !== undefined, {
    path: ['K8S_GATEWAY'],
    error: 'is required with K8S_ROUTES=gateway',
  })
  .transform(all => ({
    namespaces: all.K8S_NAMESPACES,
    /** Distinguishes the objects of agents that share a namespace. */
    owner: all.K8S_OWNER,
    routes: all.K8S_ROUTES,
    domain: all.K8S_DOMAIN ?? null,
    ingress_class: all.K8S_INGRESS_CLASS ?? null,
    gateway: all.K8S_GATEWAY?.split('/') ?? null,
    tls: all.K8S_TLS,
    storage_class: all.K8S_STORAGE_CLASS ?? null,
    database_backups: all.K8S_DATABASE_BACKUPS === 'on',
    /** Null: the one that the cluster has. */
    snapshot_class: all.K8S_SNAPSHOT_CLASS ?? null,
    postgres_image: all.K8S_POSTGRES_IMAGE,
    redis_image: all.K8S_REDIS_IMAGE,
    pull_secrets: all.K8S_PULL_SECRETS,
    run_as_user: all.K8S_RUN_AS_USER ?? null,
    http_registries: all.K8S_HTTP_REGISTRIES,
    build_socket: all.K8S_BUILD_SOCKET?.replace(/^unix:\/\//, '') ?? null,
    build_base_image: all.K8S_BUILD_BASE_IMAGE ?? null,
    /** The images of languages that have one of their own. */
    build_base_images: all.K8S_BUILD_BASE_IMAGES,
    /** The registry for built images; null for the installation's own. */
    build_registry: all.K8S_BUILD_REGISTRY ?? null,
    /** A file with the logins for that registry and for base images. */
    build_docker_config: all.K8S_BUILD_DOCKER_CONFIG ?? null,
    privileges: all.K8S_PRIVILEGES === 'on',
    service_accounts: all.K8S_SERVICE_ACCOUNTS,
    /** Set for an agent that deploys to namespaces which admit privileged pods. Privileges need such a namespace. */
    accepts_privileged_namespaces: all.K8S_PRIVILEGED_NAMESPACES === 'accept' || all.K8S_PRIVILEGES === 'on',
    /** The time for a revision to become healthy. */
    progress_seconds: all.K8S_PROGRESS_SECONDS,
    /** The time in which proxies may still send requests to the previous revision. */
    drain_seconds: all.K8S_DRAIN_SECONDS,
  }))
export type KubernetesSettings = z.output<typeof KubernetesSettings>

/** Throws all problems at once, one line per variable. */
export function readSettings(env: Record<string, string | undefined>): KubernetesSettings {
  // An empty variable counts as unset.
  const variables = Object.fromEntries(Object.entries(env).filter(([name, value]) => name.startsWith('K8S_') && value))
  const result = KubernetesSettings.safeParse(variables, { error: describeIssue })
  if (result.success) return result.data
  throw new Error(result.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('\n'))
}
