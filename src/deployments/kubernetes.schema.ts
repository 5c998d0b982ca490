// What of Kubernetes crosses the wire: names, labels, volumes and containers. Where Kubernetes keeps a closed set that grows, the cluster judges.
import * as z from 'zod'

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

export const matching = (pattern: string, error: string) => z.string().regex(new RegExp(`^${pattern}$`), { error })

export const DnsLabel = matching(LABEL, 'needs to be 1 to 63 lower-case letters, digits or inner hyphens')
export const DnsSubdomain = matching(SUBDOMAIN, 'needs to be lower-case letters, digits, hyphens and inner dots').max(
  253,
)
export const ImageReference = matching(
  `(${HOST}/)?${PART}(/${PART})*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64}|@sha512:[a-f0-9]{128})?`,
  'needs to be an image: an optional registry, a repository, an optional tag or digest',
).max(512)
/** Kubernetes keeps nothing else as the name of a member of a secret. */
export const SecretKey = matching('[-._A-Za-z0-9]+', 'needs to be letters, digits, dots, hyphens, underscores').max(253)

const MapKey = matching(
  `(?!.{254,}/)(${SUBDOMAIN}/)?${QUALIFIED}`,
  'needs to be a name of at most 63 characters, after an optional DNS prefix and a slash',
)
/** A record passes over a member called `__proto__`, which is no valid key: told, so that nothing is lost in silence. */
const keyed = <Value extends z.ZodType<string>>(value: Value) =>
  z.preprocess(
    (all, check) => {
      if (isObject(all) && Object.hasOwn(all, '__proto__'))
        check.addIssue({ code: 'custom', path: ['__proto__'], message: 'is not a name that a member may have' })
      return all
    },
    z.record(MapKey, value),
  )
export const Labels = keyed(
  matching(`(${QUALIFIED})?`, 'needs at most 63 letters, digits, dots, hyphens or underscores, or to be empty'),
)
const bytes = (text: string) => new TextEncoder().encode(text).length
export const Annotations = keyed(z.string()).refine(
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
    if (!isObject(item) || typeof item.name !== 'string') continue
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
    mountPath: z.string().regex(/^[^:]+$/, { error: 'needs to be a path without a colon' }),
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
    name: matching('[-._A-Za-z][-._A-Za-z0-9]*', 'needs letters, digits, dots, hyphens, underscores; no digit first'),
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
      command: z.array(Text),
      args: z.array(Text),
      env: z.array(Variable),
      envFrom: z.array(FreeForm),
      resources: z.object(sparse({ limits: FreeForm, requests: FreeForm })).overwrite(withoutNulls),
      volumeMounts: z.array(VolumeMount),
      securityContext: FreeForm,
    }),
  })
  .overwrite(withoutNulls)
  .meta({ id: 'Container', description: 'A container beside or before the application’s own, as Kubernetes has it.' })
