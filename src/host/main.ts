// The earlier path of main.mjs, which units and cron jobs of operators may still name.
import './main.mjs'
