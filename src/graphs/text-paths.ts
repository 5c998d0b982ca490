// Texts of an item by a path: `$` for all of it, `title`, `author.name`, `parts[*].text`, `parts[0]`, `parts[-1]`.

const PART = /^([^[\]]*)((?:\[(?:\*|-?\d{1,6})\])*)$/

/** Null, or why it is no path. */
export function faultOfPath(path: string): string | null {
  if (path === '$') return null
  const isPath = path.length <= 500 && path.split('.').every(part => part !== '' && PART.test(part))
  return isPath ? null : `"${path.slice(0, 100)}" is no path, such as "$", "title" or "parts[*].text"`
}

export function textsAt(value: unknown, path: string): string[] {
  if (path === '$') return [JSON.stringify(value)]
  let found: unknown[] = [value]
  for (const part of path.split('.')) {
    const [, name = '', places = ''] = PART.exec(part) ?? []
    if (name !== '') found = found.map(one => (isObject(one) && Object.hasOwn(one, name) ? one[name] : undefined))
    for (const place of places.slice(1, -1).split('][').filter(Boolean))
      found = found.flatMap(one => (Array.isArray(one) ? (place === '*' ? one : [one.at(Number(place))]) : []))
  }
  return found.filter(one => one !== undefined && one !== null && one !== '').map(toText)
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
const toText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))
