// `npm run start:deno`: serves the app on Deno, with the permissions that package.json lists.
import './start.ts'
