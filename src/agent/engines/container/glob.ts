// Patterns of a .dockerignore, as Docker reads them, in a time that no pattern can stretch: a regular expression might go on for years. Pure.

type Sign = (sign: string) => boolean
/** Null stands for as many as there are. */
type Pattern<One> = (One | null)[]

const ANY: Sign = () => true
const PARTS = /\[[^\]]+\]|\\.|./gs

/** Whether it names the path, or a folder above it. */
export function glob(pattern: string): (path: string) => boolean {
  const folders = pattern.split('/').map(part => (part === '**' ? null : signsOf(part)))
  // At its end it means what is below, and not the folder itself.
  if (folders.length > 1 && folders.at(-1) === null) folders.push([ANY, null])
  return path => {
    const names = path.split('/')
    return names.some((_, i) => fits(folders, names.slice(0, i + 1), (signs, name) => fits(signs, [...name], isOne)))
  }
}

const isOne = (one: Sign, sign: string) => one(sign)

const signsOf = (part: string): Pattern<Sign> =>
  (part.match(PARTS) ?? []).map(found => {
    if (found === '*') return null
    if (found === '?') return ANY
    if (found.length === 1) return sign => sign === found
    if (found.startsWith('\\')) return sign => sign === found[1]
    const range = new RegExp(`^${found}$`, 'u')
    return sign => range.test(sign)
  })

/** Only the last of what stands for many is ever tried again: those before it have taken the least that they could. */
function fits<One, Item>(pattern: Pattern<One>, items: Item[], one: (want: One, item: Item) => boolean): boolean {
  let [at, many, from] = [0, -1, 0]
  for (let item = 0; item < items.length; ) {
    const want = pattern[at]
    if (want === null) {
      many = at++
      from = item
    } else if (want !== undefined && one(want, items[item]!)) {
      at++
      item++
    } else if (many >= 0) {
      at = many + 1
      item = ++from
    } else return false
  }
  return pattern.slice(at).every(want => want === null)
}
