// `npm run start:bun`: serves the app on Bun.
import './start.ts'
