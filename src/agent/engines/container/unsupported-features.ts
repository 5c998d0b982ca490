// What a revision asks for that no single machine's container engine can give: told before anything of it is made. Pure.
import type { RevisionSpec } from '../engine.ts'
import { parseCpu, parseMemory } from '../quantities.ts'

type Resources = RevisionSpec['resources']
type Container = NonNullable<Resources['sidecars']>[number]

/** Of a container's securityContext; what is not listed would be passed over in silence. */
const SUPPORTED_SECURITY = new Set([
  ...['runAsUser', 'runAsGroup', 'runAsNonRoot', 'readOnlyRootFilesystem'],
  ...['allowPrivilegeEscalation', 'privileged', 'capabilities', 'seccompProfile'],
])
const NEEDS_CLUSTER = 'it needs a cluster: use a listener whose agent runs the kubernetes engine'

/** The first reason, as a sentence; null where there is none. */
export function findUnsupported({ resources }: RevisionSpec): string | null {
  if (resources.service_account_name)
    return `\`service_account_name\` means nothing to a container engine: leave it out, or ${NEEDS_CLUSTER.slice('it needs a cluster: '.length)}.`
  return (
    firstProblem(resources.volumes ?? [], volumeProblem) ??
    mountsProblem('volume_mounts', resources.volume_mounts, resources) ??
    firstProblem([...(resources.init_containers ?? []), ...(resources.sidecars ?? [])], container =>
      containerProblem(container, resources),
    )
  )
}

const firstProblem = <T>(all: T[], trouble: (one: T) => string | null) =>
  all.reduce<string | null>((found, one) => found ?? trouble(one), null)

function volumeProblem({ name, ...kinds }: NonNullable<Resources['volumes']>[number]): string | null {
  const [kind, ...others] = Object.keys(kinds)
  const what = `The volume \`${name}\``
  if (!kind) return `${what} does not say what it is: give it an \`emptyDir\` or a \`persistentVolumeClaim\`.`
  if (others.length) return `${what} is of several kinds: give it one.`
  if (kind === 'emptyDir') return null
  if (kind !== 'persistentVolumeClaim')
    return `${what} is of the kind \`${kind}\`, and ${NEEDS_CLUSTER}. Here volumes are \`emptyDir\` or \`persistentVolumeClaim\`.`
  const claim = (kinds as { persistentVolumeClaim?: { claimName?: unknown } }).persistentVolumeClaim?.claimName
  return typeof claim === 'string' && /^[a-z0-9][-a-z0-9.]{0,62}$/.test(claim)
    ? null
    : `${what} needs a \`claimName\` of lower-case letters, digits, dots and hyphens.`
}

function mountsProblem(where: string, mounts: Resources['volume_mounts'], { volumes }: Resources): string | null {
  return firstProblem(mounts ?? [], ({ name, mountPath, subPath, subPathExpr, mountPropagation }) => {
    const what = `The mount of \`${name}\` in ${where}`
    if (!volumes?.some(volume => volume.name === name))
      return `${what} is of no volume that \`volumes\` has: add it there.`
    if (!mountPath.startsWith('/')) return `${what} needs a \`mountPath\` that begins with a slash.`
    if (subPath || subPathExpr) return `${what} has a \`subPath\`, and ${NEEDS_CLUSTER}.`
    if (mountPropagation && mountPropagation !== 'None')
      return `${what} has a \`mountPropagation\`, and ${NEEDS_CLUSTER}.`
    return null
  })
}

function containerProblem(container: Container, resources: Resources): string | null {
  const { name, env, envFrom, securityContext, volumeMounts, resources: own } = container
  const what = `The container \`${name}\``
  for (const { name, valueFrom } of env ?? [])
    if (valueFrom && !valueFrom.secretKeyRef)
      return `${what} takes its variable \`${name}\` from something else than a secret, and ${NEEDS_CLUSTER}.`
  for (const from of envFrom ?? [])
    if (!from.secretRef) return `${what} takes variables from something else than a secret, and ${NEEDS_CLUSTER}.`
  for (const amounts of [own?.limits, own?.requests]) {
    for (const [kind, amount] of Object.entries(amounts ?? {})) {
      if (kind !== 'cpu' && kind !== 'memory') return `${what} asks for \`${kind}\`, and ${NEEDS_CLUSTER}.`
      if (Number.isNaN((kind === 'cpu' ? parseCpu : parseMemory)(amount)))
        return `${what} asks for \`${String(amount)}\` of ${kind}: write it like ${kind === 'cpu' ? '`500m`' : '`64Mi`'}.`
    }
  }
  return (
    securityProblem(what, securityContext ?? {}) ?? mountsProblem(`the container \`${name}\``, volumeMounts, resources)
  )
}

/** What would let a container out of its confines is not to be had by asking. */
function securityProblem(what: string, context: Record<string, unknown>): string | null {
  const { privileged, capabilities, allowPrivilegeEscalation, runAsUser, runAsGroup } = context
  const { add } = (capabilities ?? {}) as { add?: unknown[] }
  if (privileged || add?.length || allowPrivilegeEscalation)
    return `${what} asks for privileges on the machine, which nobody gets: leave them out of its \`securityContext\`.`
  const unknown = Object.keys(context).find(member => !SUPPORTED_SECURITY.has(member))
  if (unknown) return `${what} has \`${unknown}\` in its \`securityContext\`, and ${NEEDS_CLUSTER}.`
  const numbers = [runAsUser, runAsGroup].filter(id => id !== undefined)
  return numbers.every(Number.isSafeInteger) ? null : `${what} needs numbers as \`runAsUser\` and \`runAsGroup\`.`
}
