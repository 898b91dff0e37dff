"""What the adapters for LangChain and LlamaIndex share. No file imports a framework.

records      records (text, metadata, id) to chunks and back; a store that holds what its source holds; an agent's tool
retrievers   retrievers and vector stores that open a store of their own
stages       ranking stages for the texts of any retriever
unembedded   messages that are stored while the embedder fails
"""
