// Schemas of Kubernetes names, labels, volumes and containers. The cluster checks values of enumerations.
import * as z from 'zod'
import { arrayOf, boundedText, recordOf } from './wire.ts'

const DNS_LABEL = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?'
/** Kubernetes allows a part to be longer than a DNS label. */
const DNS_SUBDOMAIN_PART = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const DNS_SUBDOMAIN = `${DNS_SUBDOMAIN_PART}(\\.${DNS_SUBDOMAIN_PART})*`
const HOST_PART = '[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?'
/** A host with an optional port. */
export const HOST_PATTERN = `${HOST_PART}(\\.${HOST_PART})*(:\\d{1,5})?`
const IMAGE_PATH_PART = '[a-z0-9]+((\\.|_{1,2}|-+)[a-z0-9]+)*'
/** A label key without its prefix, or a label value. */
const QUALIFIED_NAME = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'
const MAX_ANNOTATION_BYTES = 256 * 1024
const MAX_LABELS = 200
const MAX_ANNOTATIONS = 500
/** Per container. */
const MAX_ARGUMENTS = 500
const MAX_VARIABLES = 500
export const MAX_MOUNTS = 100
const MAX_NAME_LENGTH = 253

export const textMatching = (most: number, pattern: string, error: string) =>
  boundedText(most).regex(new RegExp(`^${pattern}$`), { error })

export const DnsLabel = textMatching(63, DNS_LABEL, 'must be 1 to 63 lower-case letters, digits or inner hyphens')
export const DnsSubdomain = textMatching(
  253,
  DNS_SUBDOMAIN,
  'must be lower-case letters, digits, hyphens and inner dots',
)
const IMAGE_TAG = '(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?'
const IMAGE_DIGEST = '(@sha256:[a-f0-9]{64}|@sha512:[a-f0-9]{128})?'
export const ImageReference = textMatching(
  512,
  `(${HOST_PATTERN}/)?${IMAGE_PATH_PART}(/${IMAGE_PATH_PART})*${IMAGE_TAG}${IMAGE_DIGEST}`,
  'must be an image: an optional registry, a repository, an optional tag or digest',
)
/** The names that Kubernetes allows for members of a secret. */
export const SecretKey = textMatching(253, '[-._A-Za-z0-9]+', 'must be letters, digits, dots, hyphens, underscores')

const LABEL_KEY_ERROR = 'must be a name of at most 63 characters, after an optional DNS prefix and a slash'
const LabelKey = textMatching(317, `(${DNS_SUBDOMAIN}/)?${QUALIFIED_NAME}`, LABEL_KEY_ERROR).refine(
  key => key.indexOf('/') <= 253,
  { error: LABEL_KEY_ERROR },
)
/** zod's record silently drops a member `__proto__`; this reports it instead. */
export function rejectPrototypeKey<All>(all: All, check: z.RefinementCtx): All {
  if (isObject(all) && Object.hasOwn(all, '__proto__'))
    check.addIssue({ code: 'custom', path: ['__proto__'], message: 'is not allowed as a name' })
  return all
}
const labelMap = <Value extends z.ZodType<string>>(value: Value, most: number) =>
  z.preprocess(rejectPrototypeKey<Record<string, string>>, recordOf(LabelKey, value, most))
export const Labels = labelMap(
  textMatching(63, `(${QUALIFIED_NAME})?`, 'must be at most 63 letters, digits, dots, hyphens or underscores'),
  MAX_LABELS,
)
const countBytes = (text: string) => new TextEncoder().encode(text).length
export const Annotations = labelMap(z.string(), MAX_ANNOTATIONS).refine(
  all =>
    Object.entries(all).reduce((sum, [key, value]) => sum + countBytes(key) + countBytes(value), 0) <=
    MAX_ANNOTATION_BYTES,
  { error: 'must be at most 256 KiB in total' },
)

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Stored as sent, with its nulls. */
const FreeForm = z
  .custom<Record<string, unknown>>(isObject, { error: 'must be an object' })
  .meta({ type: 'object', additionalProperties: true })

type Sparse<Shape extends z.ZodRawShape> = { [K in keyof Shape]: z.ZodOptional<z.ZodNullable<Shape[K]>> }
/** In a request, null means absent. */
export const nullishMembers = <Shape extends Record<string, z.ZodType>>(shape: Shape) =>
  Object.fromEntries(Object.entries(shape).map(([name, member]) => [name, member.nullish()])) as Sparse<Shape>

export const omitNulls = <T extends object>(value: T): T =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null)) as T

/** Reports duplicate names. Skips invalid items, which are reported elsewhere. */
export function checkUniqueNames(check: z.RefinementCtx, path: string, items: unknown, taken = new Set<unknown>()) {
  for (const [i, item] of Array.isArray(items) ? items.entries() : []) {
    if (!isObject(item) || typeof item.name !== 'string' || item.name.length > MAX_NAME_LENGTH) continue
    if (taken.has(item.name)) {
      const message = `\`${item.name}\` is a duplicate. Names must be unique`
      check.addIssue({ code: 'custom', path: [path, i, 'name'], message })
    }
    taken.add(item.name)
  }
}

const Text = z.string()

export const Volume = z
  .object({
    name: DnsLabel,
    ...nullishMembers({
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
  .overwrite(omitNulls)
  .meta({ id: 'Volume', description: 'A volume of the pod, as in Kubernetes.' })

export const VolumeMount = z
  .object({
    name: DnsLabel.meta({ description: 'The volume.' }),
    mountPath: boundedText(4096).regex(/^[^:]+$/, { error: 'must be a path without a colon' }),
    ...nullishMembers({
      subPath: Text,
      mountPropagation: Text,
      subPathExpr: Text,
      readOnly: z.boolean(),
    }),
  })
  .overwrite(omitNulls)
  .meta({ id: 'VolumeMount', description: 'The path of a volume in a container.' })

const ContainerVariable = z
  .object({
    name: textMatching(
      253,
      '[-._A-Za-z][-._A-Za-z0-9]*',
      'must be letters, digits, dots, hyphens or underscores, and must not start with a digit',
    ),
    ...nullishMembers({ value: Text, valueFrom: FreeForm }),
  })
  .overwrite(omitNulls)

export const Container = z
  .object({
    name: DnsLabel,
    image: ImageReference,
    ...nullishMembers({
      imagePullPolicy: Text,
      workingDir: Text,
      restartPolicy: Text,
      command: arrayOf(Text, MAX_ARGUMENTS),
      args: arrayOf(Text, MAX_ARGUMENTS),
      env: arrayOf(ContainerVariable, MAX_VARIABLES),
      envFrom: arrayOf(FreeForm, MAX_VARIABLES),
      resources: z.object(nullishMembers({ limits: FreeForm, requests: FreeForm })).overwrite(omitNulls),
      volumeMounts: arrayOf(VolumeMount, MAX_MOUNTS),
      securityContext: FreeForm,
    }),
  })
  .overwrite(omitNulls)
  .meta({ id: 'Container', description: 'A container that runs before or beside the application, as in Kubernetes.' })
