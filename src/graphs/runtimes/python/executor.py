"""Runs Python graphs for the server, which has started this process with `python -P`, in the folder of the file.

The folder of this script goes to the end of the path: modules of the application win.
"""

import os
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.getcwd())

if __name__ == "__main__":
    from graphs_executor.pipe import main

    main()
