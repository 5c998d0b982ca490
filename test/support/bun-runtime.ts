// The app on Bun, as on Node.
export * from './node-runtime.ts'
