// The app on Deno, as on Node.
export * from './node-runtime.ts'
