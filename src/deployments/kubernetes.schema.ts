// What of Kubernetes crosses the wire: names, labels, volumes and containers. Where Kubernetes keeps a closed set that grows, the cluster judges.
import * as z from 'zod'
import { arrayOf, recordOf, text } from '../kernel/wire.ts'

const LABEL = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?'
/** Its labels may be longer than a DNS label. */
const SUBDOMAIN_PART = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const SUBDOMAIN = `${SUBDOMAIN_PART}(\\.${SUBDOMAIN_PART})*`
const HOST_PART = '[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?'
/** A host and perhaps a port, as a pattern. */
export const HOST = `${HOST_PART}(\\.${HOST_PART})*(:\\d{1,5})?`
const PART = '[a-z0-9]+((\\.|_{1,2}|-+)[a-z0-9]+)*'
/** The part of a label's key after its prefix, and a label's value. */
const QUALIFIED = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'
const ANNOTATION_BYTES = 256 * 1024
const MOST_LABELS = 200
const MOST_ANNOTATIONS = 500
/** Of one container. */
const MOST_ARGUMENTS = 500
const MOST_VARIABLES = 500
export const MOST_MOUNTS = 100
const LONGEST_NAME = 253

export const matching = (most: number, pattern: string, error: string) =>
  text(most).regex(new RegExp(`^${pattern}$`), { error })

export const DnsLabel = matching(63, LABEL, 'needs to be 1 to 63 lower-case letters, digits or inner hyphens')
export const DnsSubdomain = matching(253, SUBDOMAIN, 'needs to be lower-case letters, digits, hyphens and inner dots')
export const ImageReference = matching(
  512,
  `(${HOST}/)?${PART}(/${PART})*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64}|@sha512:[a-f0-9]{128})?`,
  'needs to be an image: an optional registry, a repository, an optional tag or digest',
)
/** Kubernetes keeps nothing else as the name of a member of a secret. */
export const SecretKey = matching(253, '[-._A-Za-z0-9]+', 'needs to be letters, digits, dots, hyphens, underscores')

const MapKey = matching(
  317,
  `(?!.{254,}/)(${SUBDOMAIN}/)?${QUALIFIED}`,
  'needs to be a name of at most 63 characters, after an optional DNS prefix and a slash',
)
/** A record passes over a member called `__proto__`, which is no valid key: told, so that nothing is lost in silence. */
export function withoutPrototype(all: unknown, check: z.RefinementCtx): unknown {
  if (isObject(all) && Object.hasOwn(all, '__proto__'))
    check.addIssue({ code: 'custom', path: ['__proto__'], message: 'is not a name that a member may have' })
  return all
}
const keyed = <Value extends z.ZodType<string>>(value: Value, most: number) =>
  z.preprocess(withoutPrototype, recordOf(MapKey, value, most))
export const Labels = keyed(
  matching(63, `(${QUALIFIED})?`, 'needs at most 63 letters, digits, dots, hyphens or underscores, or to be empty'),
  MOST_LABELS,
)
const bytes = (text: string) => new TextEncoder().encode(text).length
export const Annotations = keyed(z.string(), MOST_ANNOTATIONS).refine(
  all => Object.entries(all).reduce((sum, [key, value]) => sum + bytes(key) + bytes(value), 0) <= ANNOTATION_BYTES,
  { error: 'needs to stay within 256 KiB in all' },
)

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Kept exactly as it came, nulls and all. */
const FreeForm = z
  .custom<Record<string, unknown>>(isObject, { error: 'needs to be an object' })
  .meta({ type: 'object', additionalProperties: true })

type Sparse<Shape extends z.ZodRawShape> = { [K in keyof Shape]: z.ZodOptional<z.ZodNullable<Shape[K]>> }
/** Members that a request may leave out; null says the same. */
export const sparse = <Shape extends Record<string, z.ZodType>>(shape: Shape) =>
  Object.fromEntries(Object.entries(shape).map(([name, member]) => [name, member.nullish()])) as Sparse<Shape>

export const withoutNulls = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null)) as T

/** Reports each item whose name another one before it has; tolerates items that are faulty themselves. */
export function namedOnce(check: z.RefinementCtx, path: string, items: unknown, taken = new Set<unknown>()) {
  for (const [i, item] of Array.isArray(items) ? items.entries() : []) {
    if (!isObject(item) || typeof item.name !== 'string' || item.name.length > LONGEST_NAME) continue
    if (taken.has(item.name)) {
      const message = `\`${item.name}\` is there already; names need to be unique`
      check.addIssue({ code: 'custom', path: [path, i, 'name'], message })
    }
    taken.add(item.name)
  }
}

const Text = z.string()

export const Volume = z
  .object({
    name: DnsLabel,
    ...sparse({
      configMap: FreeForm,
      secret: FreeForm,
      emptyDir: FreeForm,
      persistentVolumeClaim: FreeForm,
      nfs: FreeForm,
      projected: FreeForm,
      downwardAPI: FreeForm,
      csi: FreeForm,
    }),
  })
  .overwrite(withoutNulls)
  .meta({ id: 'Volume', description: 'A volume of the pod and where it comes from, as Kubernetes has it.' })

export const VolumeMount = z
  .object({
    name: DnsLabel.meta({ description: 'The volume.' }),
    mountPath: text(4096).regex(/^[^:]+$/, { error: 'needs to be a path without a colon' }),
    ...sparse({
      subPath: Text,
      mountPropagation: Text,
      subPathExpr: Text,
      readOnly: z.boolean(),
    }),
  })
  .overwrite(withoutNulls)
  .meta({ id: 'VolumeMount', description: 'Where a container sees a volume.' })

const Variable = z
  .object({
    name: matching(
      253,
      '[-._A-Za-z][-._A-Za-z0-9]*',
      'needs letters, digits, dots, hyphens, underscores; no digit first',
    ),
    ...sparse({ value: Text, valueFrom: FreeForm }),
  })
  .overwrite(withoutNulls)

export const Container = z
  .object({
    name: DnsLabel,
    image: ImageReference,
    ...sparse({
      imagePullPolicy: Text,
      workingDir: Text,
      restartPolicy: Text,
      command: arrayOf(Text, MOST_ARGUMENTS),
      args: arrayOf(Text, MOST_ARGUMENTS),
      env: arrayOf(Variable, MOST_VARIABLES),
      envFrom: arrayOf(FreeForm, MOST_VARIABLES),
      resources: z.object(sparse({ limits: FreeForm, requests: FreeForm })).overwrite(withoutNulls),
      volumeMounts: arrayOf(VolumeMount, MOST_MOUNTS),
      securityContext: FreeForm,
    }),
  })
  .overwrite(withoutNulls)
  .meta({ id: 'Container', description: 'A container beside or before the application’s own, as Kubernetes has it.' })
