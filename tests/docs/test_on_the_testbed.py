"""What the documents run on real ranks with limited links.

Those blocks, and the files that they need.
"""

import pytest
from document_blocks import DOCUMENTS, blocks, name
from document_walk import Walk

ON_TESTBED = [
    document
    for document in DOCUMENTS
    if any(block.mark == "needs: testbed" for block in blocks(document.read_text()))
]
pytestmark = [pytest.mark.torch, pytest.mark.testbed, pytest.mark.wide]


@pytest.mark.parametrize("document", ON_TESTBED, ids=name)
def test_what_needs_the_testbed_runs_there(document, tmp_path):
    walk = Walk(tmp_path, {"torch", "testbed"})
    for block in blocks(document.read_text()):
        if block.mark == "needs: testbed" or block.mark.startswith("file: "):
            walk.carry_out(block)
