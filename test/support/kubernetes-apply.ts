// Server-side apply of an API server: owners of fields, conflicts, and removal of fields that an owner drops. Pure.
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type Fields = { [key: string]: Json }

/** Lists whose items have these keys; any other list is one value. */
const LIST_KEYS: Record<string, string[]> = {
  containers: ['name'],
  initContainers: ['name'],
  volumes: ['name'],
  env: ['name'],
  imagePullSecrets: ['name'],
  volumeMounts: ['mountPath'],
  topologySpreadConstraints: ['topologyKey', 'whenUnsatisfiable'],
  finalizers: [],
}
const PORT_KEYS = [
  ['containerPort', 'protocol'],
  ['port', 'protocol'],
]
const isObject = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function findListKeys(name: string, items: Json[]): string[] | null {
  const candidates = name === 'ports' ? PORT_KEYS : LIST_KEYS[name] ? [LIST_KEYS[name]] : []
  return (
    candidates.find(
      keys =>
        keys.length > 0 && items.length > 0 && items.every(item => isObject(item) && keys.every(key => key in item)),
    ) ?? null
  )
}
const getItemId = (item: Json, keys: string[]) => JSON.stringify(keys.map(key => (item as Fields)[key] ?? null))

/** The fields of an object by path, with their values. */
function listFields(value: Json, path = '', name = '', into = new Map<string, string>()): Map<string, string> {
  const keys = Array.isArray(value) ? findListKeys(name, value) : null
  if (isObject(value) && Object.keys(value).length > 0)
    for (const [key, member] of Object.entries(value)) listFields(member, `${path}/${key}`, key, into)
  else if (Array.isArray(value) && keys)
    for (const item of value) listFields(item, `${path}/${getItemId(item, keys)}`, '', into)
  else into.set(path, JSON.stringify(value))
  return into
}

export function mergeObjects(live: Json | undefined, applied: Json, name = ''): Json {
  if (isObject(live) && isObject(applied)) {
    const all = { ...live }
    for (const [key, member] of Object.entries(applied))
      if (member === null) delete all[key]
      else all[key] = mergeObjects(live[key], member, key)
    return all
  }
  if (Array.isArray(live) && Array.isArray(applied)) {
    const keys = findListKeys(name, applied)
    if (!keys || !findListKeys(name, live)) return applied
    const rest = new Map(live.map(item => [getItemId(item, keys), item]))
    for (const item of applied) rest.set(getItemId(item, keys), mergeObjects(rest.get(getItemId(item, keys)), item))
    return [...rest.values()]
  }
  return applied
}

/** Removes fields, and members that become empty. */
function removeFields(value: Json, paths: Set<string>, path = '', name = ''): Json | undefined {
  if (paths.has(path)) return undefined
  if (isObject(value) && Object.keys(value).length > 0) {
    const left = Object.entries(value).flatMap(([key, member]) => {
      const rest = removeFields(member, paths, `${path}/${key}`, key)
      return rest === undefined ? [] : [[key, rest] as const]
    })
    return left.length > 0 ? Object.fromEntries(left) : undefined
  }
  const keys = Array.isArray(value) ? findListKeys(name, value) : null
  if (Array.isArray(value) && keys) {
    const left = value.flatMap(item => removeFields(item, paths, `${path}/${getItemId(item, keys)}`) ?? [])
    return left.length > 0 ? left : undefined
  }
  return value
}

export type Owners = Map<string, Map<string, string>>
/** The fields that managers can own. */
export function listStatedFields({ apiVersion: _, kind: __, status: ___, ...object }: Fields): Map<string, string> {
  const { metadata, ...rest } = object
  const { labels, annotations } = (metadata ?? {}) as Fields
  return listFields({ ...rest, ...(labels && { labels }), ...(annotations && { annotations }) } as Fields)
}
const hoistLabels = (object: Fields): Fields => {
  const { metadata, apiVersion: _, kind: __, status: ___, ...rest } = object
  const { labels, annotations } = (metadata ?? {}) as Fields
  return { ...rest, ...(labels && { labels }), ...(annotations && { annotations }) } as Fields
}

/** Returns the merged object, or the conflicts. */
export function applyObject(
  live: Fields | null,
  applied: Fields,
  owners: Owners,
  manager: string,
  force: boolean,
): { object: Fields } | { conflicts: { manager: string; field: string }[] } {
  const stated = listStatedFields(applied)
  const conflicts: { manager: string; field: string }[] = []
  for (const [other, fields] of owners) {
    if (other === manager) continue
    for (const [path, value] of stated)
      if (fields.has(path) && fields.get(path) !== value) conflicts.push({ manager: other, field: path })
  }
  if (conflicts.length > 0 && !force) return { conflicts }
  for (const { manager: other, field } of conflicts) owners.get(other)!.delete(field)
  const hasOtherOwner = (path: string) => [...owners].some(([other, fields]) => other !== manager && fields.has(path))
  const dropped = new Set(
    [...(owners.get(manager)?.keys() ?? [])].filter(path => !stated.has(path) && !hasOtherOwner(path)),
  )
  owners.set(manager, stated)
  const before = live ? (removeFields(hoistLabels(live), dropped) ?? {}) : {}
  const { labels, annotations, ...rest } = mergeObjects(before, hoistLabels(applied)) as Fields
  const metadata: Fields = {
    ...((live?.metadata ?? {}) as Fields),
    name: (applied.metadata as Fields).name!,
    namespace: (applied.metadata as Fields).namespace!,
  }
  delete metadata.labels
  delete metadata.annotations
  return {
    object: {
      apiVersion: applied.apiVersion!,
      kind: applied.kind!,
      metadata: { ...metadata, ...(labels && { labels }), ...(annotations && { annotations }) },
      ...rest,
      ...(live?.status !== undefined && { status: live.status }),
    },
  }
}

/** Items with the same key, which only an apply refuses. */
export function findDuplicateKeys(value: Json, path = '', name = ''): string[] {
  if (isObject(value))
    return Object.entries(value).flatMap(([key, member]) => findDuplicateKeys(member, `${path}.${key}`, key))
  if (!Array.isArray(value)) return []
  const keys = findListKeys(name, value)
  const ids = keys ? value.map(item => getItemId(item, keys)) : []
  const twice = ids.filter((id, i) => ids.indexOf(id) !== i).map(id => `${path}: duplicate entries for key ${id}`)
  return [...twice, ...value.flatMap(item => findDuplicateKeys(item, `${path}[]`))]
}

const BINARY_UNITS = ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei']
/** Quantities in the largest unit that leaves a whole number, as the server writes them. */
export function canonicalizeQuantities(value: Json, quantity = false): Json {
  if (Array.isArray(value)) return value.map(item => canonicalizeQuantities(item))
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [
        key,
        canonicalizeQuantities(member, quantity ? typeof member === 'string' : key === 'requests' || key === 'limits'),
      ]),
    )
  const [, digits, unit] = (quantity && typeof value === 'string' && /^(\d+)(m|[KMGTPE]i)$/.exec(value)) || []
  if (unit === undefined) return value
  let [amount, at] = [Number(digits), BINARY_UNITS.indexOf(unit)]
  if (unit === 'm') return amount % 1000 === 0 ? String(amount / 1000) : value
  for (; amount > 0 && amount % 1024 === 0 && at + 1 < BINARY_UNITS.length; at++) amount /= 1024
  return `${amount}${BINARY_UNITS[at]}`
}
/** Expects a binary unit. */
export const parseStorageBytes = (quantity: string) =>
  Number.parseInt(quantity, 10) * 1024 ** (BINARY_UNITS.indexOf(quantity.replace(/^\d+/, '')) + 1)
