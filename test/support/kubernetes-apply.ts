// Server-side apply as an API server does it: who owns which field, what conflicts, what goes when its owner no longer says it. Pure.
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type Fields = { [key: string]: Json }

/** Lists whose items are known by these members; all others are one value. */
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

/** Each field that an object states, by its path, with its value. */
export function listFields(value: Json, path = '', name = '', into = new Map<string, string>()): Map<string, string> {
  const keys = Array.isArray(value) ? findListKeys(name, value) : null
  if (isObject(value) && Object.keys(value).length > 0)
    for (const [key, member] of Object.entries(value)) listFields(member, `${path}/${key}`, key, into)
  else if (Array.isArray(value) && keys)
    for (const item of value) listFields(item, `${path}/${getItemId(item, keys)}`, '', into)
  else into.set(path, JSON.stringify(value))
  return into
}

export function mergeObjects(live: Json | undefined, said: Json, name = ''): Json {
  if (isObject(live) && isObject(said)) {
    const all = { ...live }
    for (const [key, member] of Object.entries(said)) all[key] = mergeObjects(live[key], member, key)
    return all
  }
  if (Array.isArray(live) && Array.isArray(said)) {
    const keys = findListKeys(name, said)
    if (!keys || !findListKeys(name, live)) return said
    const rest = new Map(live.map(item => [getItemId(item, keys), item]))
    for (const item of said) rest.set(getItemId(item, keys), mergeObjects(rest.get(getItemId(item, keys)), item))
    return [...rest.values()]
  }
  return said
}

/** Without the fields of these paths, and without what is empty then. */
function removeFields(value: Json, gone: Set<string>, path = '', name = ''): Json | undefined {
  if (gone.has(path)) return undefined
  if (isObject(value) && Object.keys(value).length > 0) {
    const left = Object.entries(value).flatMap(([key, member]) => {
      const rest = removeFields(member, gone, `${path}/${key}`, key)
      return rest === undefined ? [] : [[key, rest] as const]
    })
    return left.length > 0 ? Object.fromEntries(left) : undefined
  }
  const keys = Array.isArray(value) ? findListKeys(name, value) : null
  if (Array.isArray(value) && keys) {
    const left = value.flatMap(item => removeFields(item, gone, `${path}/${getItemId(item, keys)}`) ?? [])
    return left.length > 0 ? left : undefined
  }
  return value
}

export type Owners = Map<string, Map<string, string>>
/** What an object states that managers can own. */
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

/** What becomes of an object, or who stands in the way. */
export function applyObject(
  live: Fields | null,
  said: Fields,
  owners: Owners,
  manager: string,
  force: boolean,
): { object: Fields } | { conflicts: { manager: string; field: string }[] } {
  const states = listStatedFields(said)
  const conflicts: { manager: string; field: string }[] = []
  for (const [other, fields] of owners) {
    if (other === manager) continue
    for (const [path, value] of states)
      if (fields.has(path) && fields.get(path) !== value) conflicts.push({ manager: other, field: path })
  }
  if (conflicts.length > 0 && !force) return { conflicts }
  for (const { manager: other, field } of conflicts) owners.get(other)!.delete(field)
  const kept = (path: string) => [...owners].some(([other, fields]) => other !== manager && fields.has(path))
  const gone = new Set([...(owners.get(manager)?.keys() ?? [])].filter(path => !states.has(path) && !kept(path)))
  owners.set(manager, states)
  const before = live ? (removeFields(hoistLabels(live), gone) ?? {}) : {}
  const { labels, annotations, ...rest } = mergeObjects(before, hoistLabels(said)) as Fields
  const metadata: Fields = {
    ...((live?.metadata ?? {}) as Fields),
    ...{ name: (said.metadata as Fields).name!, namespace: (said.metadata as Fields).namespace! },
  }
  delete metadata.labels
  delete metadata.annotations
  return {
    object: {
      ...{ apiVersion: said.apiVersion!, kind: said.kind! },
      metadata: { ...metadata, ...(labels && { labels }), ...(annotations && { annotations }) },
      ...rest,
      ...(live?.status !== undefined && { status: live.status }),
    },
  }
}

/** Items that say twice which they are, which only an apply may not have. */
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
/** Quantities as the server writes them: in the greatest unit that leaves a whole number. */
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
/** Of storage, whose units are binary here. */
export const parseStorageBytes = (quantity: string) =>
  Number.parseInt(quantity, 10) * 1024 ** (BINARY_UNITS.indexOf(quantity.replace(/^\d+/, '')) + 1)
