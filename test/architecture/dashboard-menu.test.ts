// An entry of the dashboard's menu leads to a screen and has keys of its own, and a folded one can unfold.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const readAll = (file: string, pattern: RegExp) => {
  const text = readFileSync(join(import.meta.dirname, '../../src/dashboard', file), 'utf8')
  const found = [...text.matchAll(pattern)].map(([, first]) => first!)
  expect(found.length, `${file}: ${pattern}`).toBeGreaterThan(5)
  return found
}

const ENTRIES = readAll('screens/menu.ts', /\{\s*(path: '\/[^}]*)\}/g)
const pathOf = (entry: string) => /path: '([^']+)'/.exec(entry)![1]!

it('each entry of the menu has a screen', () => {
  const screens = readAll('screens/screens.tsx', /\['([^']+)', \(\) => import\(/g)
  const missing = ENTRIES.map(pathOf).filter(path => !screens.includes(path))
  expect(missing, 'LOADERS of src/dashboard/screens/screens.tsx').toEqual([])
})

it('each screen that needs a permission is in the menu, which names it to those who lack the permission', () => {
  const needed = readAll('screens/screens.tsx', /\['(\/[^']+)', '[\w-]+:[\w-]+', /g)
  const paths = ENTRIES.map(pathOf)
  const missing = needed.filter(path => !paths.includes(path))
  expect(missing, 'OPENED_BY_KEYS of src/dashboard/screens/menu.ts').toEqual([])
})

it('each folded entry of the menu is learned, and no other', () => {
  const learned = readAll('layout/menu-learning.ts', /\{\s*path: '([^']+)',\s*read: /g)
  const folded = ENTRIES.filter(entry => entry.includes('isFolded: true')).map(pathOf)
  expect(learned.toSorted(), 'FOLDED of src/dashboard/layout/menu-learning.ts').toEqual(folded.toSorted())
})

it('no two entries of the menu have the same keys', () => {
  const keys = readAll('screens/menu.ts', /keys: '([^']+)'/g)
  expect(
    keys.filter((key, i) => keys.indexOf(key) !== i),
    'OPENED_BY_KEYS of src/dashboard/screens/menu.ts',
  ).toEqual([])
})
