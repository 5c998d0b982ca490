// Makes the npm package of the command line: one file without dependencies, and a tarball. Run `npm run cli:package`.
import { join, relative, resolve } from 'node:path'
import { buildSync } from 'esbuild'
import { buildDeclarationSchema } from '../src/api-docs/declaration-schema.ts'
import { license, ROOT, version, writeNpmPackage } from './npm-package.ts'

/** commander is CommonJS, and calls `require` for modules of Node. */
const REQUIRE = `import{createRequire}from'node:module';const require=createRequire(import.meta.url);`

const folder = resolve(process.argv[2] ?? join(ROOT, 'dist/cli'))
const { outputFiles } = buildSync({
  entryPoints: [join(ROOT, 'src/cli/main.ts')],
  bundle: true,
  minify: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.12',
  write: false,
  banner: { js: REQUIRE },
})
const manifest = {
  name: 'slipway',
  version,
  license,
  description: 'Deploys folders and operates deployments on Slipway.',
  type: 'module',
  bin: { slipway: 'slipway.mjs' },
  files: ['slipway.mjs', 'slipway.schema.json'],
  engines: { node: '>=20.12' },
}
const files = {
  'slipway.mjs': outputFiles[0]!.contents,
  // For editors, of documents that `slipway apply` takes.
  'slipway.schema.json': new TextEncoder().encode(`${JSON.stringify(buildDeclarationSchema())}\n`),
}
const tarball = await writeNpmPackage(folder, { manifest, files })
const shown = relative('', folder) || '.'
console.log(`Install it anywhere, also offline:
  npm install -g ${shown.startsWith('..') ? folder : `./${shown}`}
  npx --yes file:${tarball} deploy`)
