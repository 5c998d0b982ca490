// Finds what a revision requires that a container engine on one machine does not support, besides what every engine
// refuses by its policy. Pure.
import type { RevisionSpec } from '../../engine.ts'
import { parseCpu, parseMemory } from '../quantities.ts'
import { RESERVED_CLAIMS } from './disks.ts'

type Resources = RevisionSpec['resources']
type Container = NonNullable<Resources['sidecars']>[number]

const NEEDS_CLUSTER =
  'which the container engine does not support. Remove it, or use a listener whose agent runs the kubernetes engine.'

/** The first problem, as a sentence; null if there is none. */
export function findUnsupported({ resources }: RevisionSpec): string | null {
  return (
    firstProblem(resources.volumes ?? [], volumeProblem) ??
    mountsProblem('volume_mounts', resources.volume_mounts, resources) ??
    firstProblem([...(resources.init_containers ?? []), ...(resources.sidecars ?? [])], container =>
      containerProblem(container, resources),
    )
  )
}

const firstProblem = <T>(items: T[], findProblem: (item: T) => string | null) =>
  items.reduce<string | null>((problem, item) => problem ?? findProblem(item), null)

function volumeProblem({ name, ...kinds }: NonNullable<Resources['volumes']>[number]): string | null {
  const [kind, ...others] = Object.keys(kinds)
  const subject = `The volume \`${name}\``
  if (!kind) return `${subject} has no type. Add an \`emptyDir\` or a \`persistentVolumeClaim\`.`
  if (others.length) return `${subject} has several types. Keep one of them.`
  if (kind === 'emptyDir') return null
  if (kind !== 'persistentVolumeClaim')
    return (
      `${subject} has the type \`${kind}\`, ${NEEDS_CLUSTER} Supported types are \`emptyDir\` and ` +
      `\`persistentVolumeClaim\`.`
    )
  const claim = (kinds as { persistentVolumeClaim?: { claimName?: unknown } }).persistentVolumeClaim?.claimName
  if (RESERVED_CLAIMS.has(claim as string))
    return `${subject} has the \`claimName\` \`${claim}\`, which the agent uses itself. Choose another one.`
  return typeof claim === 'string' && /^[a-z0-9][-a-z0-9.]{0,62}$/.test(claim)
    ? null
    : `${subject} has no valid \`claimName\`. Use lower-case letters, digits, dots and hyphens.`
}

function mountsProblem(where: string, mounts: Resources['volume_mounts'], { volumes }: Resources): string | null {
  return firstProblem(mounts ?? [], ({ name, mountPath, subPath, subPathExpr, mountPropagation }) => {
    const subject = `The mount of \`${name}\` in ${where}`
    if (!volumes?.some(volume => volume.name === name))
      return `${subject} has no volume of that name. Add it to \`volumes\`.`
    if (!mountPath.startsWith('/')) return `${subject} has a relative \`mountPath\`. Begin it with a slash.`
    if (subPath || subPathExpr) return `${subject} has a \`subPath\`, ${NEEDS_CLUSTER}`
    if (mountPropagation && mountPropagation !== 'None')
      return `${subject} has a \`mountPropagation\`, ${NEEDS_CLUSTER}`
    return null
  })
}

function containerProblem(container: Container, resources: Resources): string | null {
  const { name, env, envFrom, volumeMounts, resources: own } = container
  const subject = `The container \`${name}\``
  for (const { name, valueFrom } of env ?? [])
    if (valueFrom && !valueFrom.secretKeyRef)
      return `${subject} reads its variable \`${name}\` from a source other than a secret, ${NEEDS_CLUSTER}`
  for (const from of envFrom ?? [])
    if (!from.secretRef) return `${subject} reads variables from a source other than a secret, ${NEEDS_CLUSTER}`
  for (const amounts of [own?.limits, own?.requests]) {
    for (const [kind, amount] of Object.entries(amounts ?? {})) {
      if (kind !== 'cpu' && kind !== 'memory') return `${subject} requests the resource \`${kind}\`, ${NEEDS_CLUSTER}`
      if (Number.isNaN((kind === 'cpu' ? parseCpu : parseMemory)(amount)))
        return (
          `${subject} requests \`${String(amount)}\` of ${kind}, which is not a quantity. ` +
          `Write it like ${kind === 'cpu' ? '`500m`' : '`64Mi`'}.`
        )
    }
  }
  return mountsProblem(`the container \`${name}\``, volumeMounts, resources)
}
