// Frameworks: what their builds make, and how that is served. Kept libraries for this tell the same names and
// commands; but no start commands, and their output folders are those of their own platform.
import type { Folder } from '../../source-files.ts'
import type { Manifest } from './manifest.ts'

/** A folder of files, or a command. `after`: what the build still lacks. */
type Served = { after?: string } & (
  | { site: string; fallback?: string /** A server cannot serve it. */; isAlone?: boolean }
  | { start: string }
)
type Framework = {
  name: string
  packages: string[]
  build: string
  env?: Record<string, string>
  serve(app: Folder, manifest: Manifest): Served
}

const configOf = (app: Folder, name: string) =>
  ['ts', 'mts', 'js', 'mjs', 'cjs'].map(ending => app.read(`${name}.config.${ending}`)).find(text => text !== null) ??
  ''
const onePage = (site: string): Served => ({ site, fallback: 'index.html' })
const pages = (site: string) => (): Served => ({ site, fallback: '404.html' })
const isExport = (app: Folder) => /\boutput\s*:\s*['"]export['"]/.test(configOf(app, 'next'))
const isStandalone = (app: Folder) => /\boutput\s*:\s*['"]standalone['"]/.test(configOf(app, 'next'))
const isSinglePage = (app: Folder) => /\bssr\s*:\s*false\b/.test(configOf(app, 'react-router') + configOf(app, 'vite'))
/** Before its release candidate, TanStack Start was built with Nitro. */
const isVitePlugin = (dependencies: Record<string, string>) =>
  Object.entries(dependencies).some(
    ([name, version]) => name.startsWith('@tanstack/') && /1\.1[3-9]\d|latest/.test(version),
  )
const NITRO: Served = { start: 'node .output/server/index.mjs' }

/** The first whose package is there: those that build with another one come before it. */
const FRAMEWORKS: Framework[] = [
  {
    name: 'Next.js',
    packages: ['next'],
    build: 'next build',
    env: { NEXT_TELEMETRY_DISABLED: '1' },
    serve: app => {
      if (isExport(app)) return { site: 'out', fallback: '404.html', isAlone: true }
      return {
        start: isStandalone(app) ? 'HOSTNAME=0.0.0.0 node .next/standalone/server.js' : 'next start --port $PORT',
      }
    },
  },
  {
    name: 'Nuxt',
    packages: ['nuxt'],
    build: 'nuxt build',
    env: { NUXT_TELEMETRY_DISABLED: '1' },
    serve: (_, { scripts }) => (/\bgenerate\b/.test(scripts.build ?? '') ? onePage('.output/public') : NITRO),
  },
  {
    name: 'SvelteKit',
    packages: ['@sveltejs/kit'],
    build: 'vite build',
    // By this variable, its automatic adapter takes that for Node.
    env: { GCP_BUILDPACKS: '1' },
    serve: (_, { dependencies }) =>
      '@sveltejs/adapter-static' in dependencies ? { site: 'build', fallback: '200.html' } : { start: 'node build' },
  },
  {
    name: 'React Router',
    packages: ['@react-router/dev'],
    build: 'react-router build',
    serve: app =>
      isSinglePage(app)
        ? { ...onePage('build/client'), isAlone: true }
        : { start: 'react-router-serve ./build/server/index.js' },
  },
  {
    name: 'Remix',
    packages: ['@remix-run/dev'],
    build: 'remix vite:build',
    serve: app =>
      isSinglePage(app)
        ? { ...onePage('build/client'), isAlone: true }
        : { start: 'remix-serve ./build/server/index.js' },
  },
  {
    name: 'Astro',
    packages: ['astro'],
    build: 'astro build',
    env: { ASTRO_TELEMETRY_DISABLED: '1' },
    serve: (_, { dependencies }) =>
      '@astrojs/node' in dependencies
        ? { start: 'HOST=0.0.0.0 node ./dist/server/entry.mjs' }
        : { site: 'dist', fallback: '404.html' },
  },
  {
    name: 'TanStack Start',
    packages: ['@tanstack/react-start', '@tanstack/solid-start'],
    build: 'vite build',
    serve: (_, { dependencies }) =>
      ['nitro', 'nitropack', '@tanstack/nitro-v2-vite-plugin'].some(name => name in dependencies) ||
      !isVitePlugin(dependencies)
        ? NITRO
        : { after: 'npm install --no-save srvx', start: 'srvx --prod --static ../client dist/server/server.js' },
  },
  { name: 'SolidStart', packages: ['@solidjs/start'], build: 'vinxi build', serve: () => NITRO },
  { name: 'Nitro', packages: ['nitropack', 'nitro'], build: 'nitro build', serve: () => NITRO },
  { name: 'NestJS', packages: ['@nestjs/core'], build: 'nest build', serve: () => ({ start: 'node dist/main' }) },
  {
    name: 'Gatsby',
    packages: ['gatsby'],
    build: 'gatsby build',
    env: { GATSBY_TELEMETRY_DISABLED: '1' },
    serve: pages('public'),
  },
  { name: 'Docusaurus', packages: ['@docusaurus/core'], build: 'docusaurus build', serve: pages('build') },
  {
    name: 'VitePress',
    packages: ['vitepress'],
    build: 'vitepress build',
    serve: app => ({
      site: app.names().includes('docs') ? 'docs/.vitepress/dist' : '.vitepress/dist',
      fallback: '404.html',
    }),
  },
  { name: 'Eleventy', packages: ['@11ty/eleventy'], build: 'eleventy', serve: pages('_site') },
  { name: 'Hexo', packages: ['hexo'], build: 'hexo generate', serve: pages('public') },
  {
    name: 'Angular',
    packages: ['@angular/core'],
    build: 'ng build',
    env: { NG_CLI_ANALYTICS: 'false' },
    serve: serveAngular,
  },
  {
    name: 'Create React App',
    packages: ['react-scripts'],
    build: 'react-scripts build',
    serve: () => onePage('build'),
  },
  { name: 'Vue CLI', packages: ['@vue/cli-service'], build: 'vue-cli-service build', serve: () => onePage('dist') },
  {
    name: 'Expo',
    packages: ['expo'],
    build: 'expo export --platform web',
    env: { EXPO_NO_TELEMETRY: '1' },
    serve: () => onePage('dist'),
  },
  {
    name: 'Ember',
    packages: ['ember-cli'],
    build: 'ember build --environment=production',
    serve: () => onePage('dist'),
  },
  { name: 'Preact', packages: ['preact-cli'], build: 'preact build', serve: () => onePage('build') },
  { name: 'Stencil', packages: ['@stencil/core'], build: 'stencil build', serve: () => onePage('www') },
  {
    name: 'Vite',
    packages: ['vite'],
    build: 'vite build',
    serve: app => onePage(/\boutDir\s*:\s*['"](?:\.\/)?([\w./-]+)['"]/.exec(configOf(app, 'vite'))?.[1] ?? 'dist'),
  },
  { name: 'Parcel', packages: ['parcel'], build: 'parcel build', serve: () => onePage('dist') },
]

const CONFIGURATION =
  /^(?:(?:next|nuxt|svelte|astro|vite|gatsby|eleventy|\.eleventy|docusaurus|react-router)\.config\.[cm]?[jt]s|angular\.json)$/

/** The folder itself is of a framework, and does not only list it for another one. */
export const hasConfiguration = (app: Folder) =>
  app.names().some(name => CONFIGURATION.test(name) || name === 'index.html')

export const findFramework = ({ dependencies }: Manifest): Framework | undefined =>
  FRAMEWORKS.find(({ packages }) => packages.some(name => name in dependencies))

/** angular.json names the project and its folder; its builder since version 17 makes `browser` in it. */
function serveAngular(app: Folder, { dependencies }: Manifest): Served {
  const { projects, defaultProject } = app.readJson('angular.json') ?? {}
  const all = Object(projects)
  const name = typeof defaultProject === 'string' ? defaultProject : (Object.keys(all)[0] ?? 'app')
  const { builder, options } = Object(Object(Object(all[name]).architect).build)
  const { outputPath } = Object(options)
  const base = Object(outputPath).base ?? outputPath
  const folder = typeof base === 'string' ? base : `dist/${name}`
  if ('@angular/ssr' in dependencies) return { start: `node ${folder}/server/server.mjs` }
  const hasBrowser = /:application$/.test(String(builder ?? '')) && Object(outputPath).browser !== ''
  return onePage(hasBrowser ? `${folder}/browser` : folder)
}

/** A script that serves files while they are edited, or shows what was built: not how a site is served to others. */
const SHOWING = [
  ...['vite', 'react-scripts start', 'vue-cli-service serve', 'gatsby develop', 'gatsby serve', 'gatsby start'],
  ...['astro dev', 'astro preview', 'ng serve', 'eleventy', 'docusaurus start', 'docusaurus serve', 'vitepress dev'],
  ...['vitepress preview', 'parcel', 'ember serve', 'ember s', 'expo start', 'preact watch', 'stencil build'],
  ...['hexo server', 'serve', 'http-server', 'live-server', 'sirv', 'webpack', 'webpack-dev-server'],
]

export function showsFiles(script: string): boolean {
  if (script.includes('&&')) return false
  const words = script.split(/\s/).filter(word => word !== '' && !word.includes('='))
  const command = words.filter(word => word !== 'npx' && word !== 'cross-env').join(' ')
  return SHOWING.some(one => command === one || command.startsWith(`${one} `))
}
