// The build of the dashboard: hashed files below /ui/assets, and a manifest that names them for the shell page.
import { fileURLToPath } from 'node:url'
import type { Rolldown, UserConfig } from 'vite'

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Modules of the start, with the first screen: one file of them is smaller than many, and needs one request. */
function listFirstModules(context: Rolldown.ChunkingContext): Set<string> {
  const found = new Set<string>()
  const pending = [path('main.tsx')]
  for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
    if (found.has(id)) continue
    found.add(id)
    pending.push(...(context.getModuleInfo(id)?.importedIds ?? []))
  }
  return found
}

export const OUTPUT = path('../../dist/dashboard/ui')

export default {
  root: path('.'),
  base: '/ui/',
  publicDir: false,
  clearScreen: false,
  // The files must not depend on NODE_ENV, which tests set.
  define: { 'process.env.NODE_ENV': '"production"' },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact', development: false } },
  css: { modules: { generateScopedName: '[local]-[hash:base64:3]' } },
  build: {
    // The first with light-dark(), which would be 40 % of the styles if it were rewritten.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    outDir: OUTPUT,
    emptyOutDir: true,
    manifest: 'manifest.json',
    // The preload polyfill and inlined files would need a looser policy.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rolldownOptions: {
      input: [path('main.tsx'), path('theme.ts')],
      output: {
        codeSplitting: {
          groups: [
            {
              debugName: 'main',
              name: (id, context) => (listFirstModules(context).has(id) ? 'main' : null),
            },
          ],
        },
      },
    },
  },
} satisfies UserConfig
